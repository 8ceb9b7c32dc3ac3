import type { SnapshotBegin, SnapshotEnd } from "@diskmesh/api/registry";
import { InvalidArgumentError, ResourceExhaustedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { PageOptions } from "@diskmesh/tablet";
import type { RegistryTables } from "../model/store/schema.js";
import type { Context } from "./context.js";

/** Read at once per watcher: however slow it is, it holds no more than that. */
const READ_AT_ONCE = 256;

/** What callers may watch, and how it is told. */
export interface Watched<Item, Changed, Removed> {
  readonly what: keyof Context["tableChanges"];
  /** All that may match, in order of key. */
  readonly candidates: (tables: RegistryTables, page: PageOptions) => Iterable<Item>;
  readonly get: (tables: RegistryTables, key: string) => Item | undefined;
  readonly keyOf: (item: Item) => string;
  readonly matches: (item: Item) => boolean;
  /** Whether it may have matched before, by what never changes of it. */
  readonly mayHaveMatched: (item: Item) => boolean;
  readonly changed: (tables: RegistryTables, item: Item) => Changed;
  readonly removed: (key: string) => Removed;
}

type SnapshotUpdate =
  | { readonly $case: "snapshotBegin"; readonly value: SnapshotBegin }
  | { readonly $case: "snapshotEnd"; readonly value: SnapshotEnd };

interface Message<Update> {
  update: Update | SnapshotUpdate;
  resumeToken: string;
}

/** Ends a stream only with an error: what is watched has no end. */
export async function* watch<Item, Changed, Removed>(
  context: Context,
  { resumeToken }: { readonly resumeToken: string },
  call: CallContext,
  watched: Watched<Item, Changed, Removed>,
): AsyncGenerator<Message<Changed | Removed>> {
  const resumed = parseResumeToken(context, watched.what, resumeToken);
  const { watchers, limits } = context;
  if (watchers.count >= limits.maxWatchers) {
    const text = `${watchers.count} callers watch hosts, devices and disks, which is the limit of watch.maxWatchers: end one, or raise the limit`;
    throw new ResourceExhaustedError(text, { retryAfterMs: 1_000 });
  }
  watchers.count++;
  try {
    yield* new Watch(context, watched, call.signal).run(resumed);
  } finally {
    watchers.count--;
  }
}

class Watch<Item, Changed, Removed> {
  /** What the watcher was sent and not told to forget. Undefined when it resumed: only it knows. */
  #sent: Set<string> | undefined;
  #position = 0;

  constructor(
    private readonly context: Context,
    private readonly watched: Watched<Item, Changed, Removed>,
    private readonly signal: AbortSignal,
  ) {}

  async *run(resumed: number | undefined): AsyncGenerator<Message<Changed | Removed>> {
    const changes = this.context.tableChanges[this.watched.what];
    if (resumed === undefined) yield* this.#snapshot();
    else this.#position = resumed;
    for (;;) {
      await changes.beyond(this.#position, this.signal);
      const changed = changes.since(this.#position, READ_AT_ONCE);
      if (changed === undefined) {
        yield* this.#snapshot();
        continue;
      }
      const updates = await this.#updatesOf(changed.keys);
      this.#position = changed.position;
      for (const [index, update] of updates.entries()) {
        // Only the last one stands for all of them.
        yield this.#message(update, index === updates.length - 1);
      }
    }
  }

  async *#snapshot(): AsyncGenerator<Message<Changed | Removed>> {
    const { tableChanges, tablet } = this.context;
    const { what, candidates, keyOf, matches, changed } = this.watched;
    // Before the first look: what changes while the snapshot is sent is sent again after it.
    this.#position = tableChanges[what].end;
    this.#sent = new Set();
    yield this.#message({ $case: "snapshotBegin", value: {} }, false);
    for (let after: string | undefined; ; ) {
      const page = { after, limit: READ_AT_ONCE };
      const read = await tablet.read((tables) =>
        [...candidates(tables, page)].map((item) => ({
          key: keyOf(item),
          update: matches(item) ? changed(tables, item) : undefined,
        })),
      );
      for (const { key, update } of read) {
        if (update === undefined) continue;
        this.#sent.add(key);
        yield this.#message(update, false);
      }
      after = read.at(-1)?.key;
      if (read.length < READ_AT_ONCE) break;
    }
    yield this.#message({ $case: "snapshotEnd", value: {} }, true);
  }

  #updatesOf(changedKeys: readonly string[]): Promise<readonly (Changed | Removed)[]> {
    const { what, get, matches, changed, removed } = this.watched;
    return this.context.tablet.read((tables) => {
      const updates: (Changed | Removed)[] = [];
      for (const key of this.context.tableChanges[what].expand(tables, changedKeys)) {
        const item = get(tables, key);
        if (item !== undefined && matches(item)) {
          this.#sent?.add(key);
          updates.push(changed(tables, item));
        } else if (this.#mayKnow(item, key)) {
          updates.push(removed(key));
        }
      }
      return updates;
    });
  }

  /** Whether the watcher may have been sent it. Of what it was sent before it resumed, it alone knows. */
  #mayKnow(item: Item | undefined, key: string): boolean {
    if (this.#sent !== undefined) return this.#sent.delete(key);
    return item === undefined || this.watched.mayHaveMatched(item);
  }

  #message(update: Changed | Removed | SnapshotUpdate, complete: boolean): Message<Changed | Removed> {
    const { tabletGeneration } = this.context.fleet.leader();
    return { update, resumeToken: complete ? `${this.watched.what}.${tabletGeneration}.${this.#position}` : "" };
  }
}

/** Undefined when there must be a snapshot first. */
function parseResumeToken(
  { fleet, tableChanges }: Context,
  what: keyof Context["tableChanges"],
  token: string,
): number | undefined {
  if (token === "") return undefined;
  const [, of, generation, position] = /^([a-z]+)\.(\d{1,15})\.(\d{1,15})$/.exec(token) ?? [];
  if (of !== what || generation === undefined || position === undefined)
    throw new InvalidArgumentError(
      `resume_token is malformed: give the last one of an earlier watch of ${what}, unchanged`,
      {
        about: { field: "resume_token" },
      },
    );
  // Positions are counted anew by each leader.
  if (Number(generation) !== fleet.leader().tabletGeneration) return undefined;
  return tableChanges[what].since(Number(position), 0) === undefined ? undefined : Number(position);
}
