import type { SnapshotBegin, SnapshotEnd } from "@diskmesh/api/registry";
import { InvalidArgumentError, ResourceExhaustedError } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import type { PageOptions } from "@diskmesh/tablet";
import type { RegistryTables } from "../model/store/schema.js";
import type { Context } from "./context.js";

/** Maximum changes in a batch of one watcher. Bounds the memory that a slow watcher holds. */
const READ_AT_ONCE = 256;

/** A kind of thing that callers can watch, and the messages for it. */
export interface Watched<Item, Changed, Removed> {
  readonly what: keyof Context["tableChanges"];
  /** Yields all items that may match the filter, ordered by key. */
  readonly candidates: (tables: RegistryTables, page: PageOptions) => Iterable<Item>;
  readonly get: (tables: RegistryTables, key: string) => Item | undefined;
  readonly keyOf: (item: Item) => string;
  readonly matches: (item: Item) => boolean;
  /** Returns whether the item may have matched earlier, judged by fields that never change. */
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

/** Streams items and their changes. Ends only with an error, or when nothing has changed with `untilNow`. */
export async function* watch<Item, Changed, Removed>(
  context: Context,
  { resumeToken, untilNow }: { readonly resumeToken: string; readonly untilNow: boolean },
  call: CallContext,
  watched: Watched<Item, Changed, Removed>,
): AsyncGenerator<Message<Changed | Removed>> {
  const resumed = parseResumeToken(context, watched.what, resumeToken);
  const { watchers, limits } = context;
  if (watchers.count >= limits.maxWatchers) {
    const text = `${watchers.count} callers already watch hosts, devices and disks, the limit (maxWatchers): end a watch, or try again later`;
    throw new ResourceExhaustedError(text, { reason: "QUEUE_FULL", retryAfterMs: 1_000 });
  }
  watchers.count++;
  try {
    yield* new Watch(context, watched, call.signal).run(resumed, untilNow);
  } finally {
    watchers.count--;
  }
}

class Watch<Item, Changed, Removed> {
  /**
   * Keys that the watcher holds: sent and not removed since. Undefined for a resumed watcher, because its keys are
   * unknown here.
   */
  #sent: Set<string> | undefined;
  #position = 0;

  constructor(
    private readonly context: Context,
    private readonly watched: Watched<Item, Changed, Removed>,
    private readonly signal: AbortSignal,
  ) {}

  async *run(resumed: number | undefined, untilNow: boolean): AsyncGenerator<Message<Changed | Removed>> {
    const changes = this.context.tableChanges[this.watched.what];
    if (resumed === undefined) yield* this.#snapshot();
    else this.#position = resumed;
    while (!untilNow || changes.end > this.#position) {
      await changes.beyond(this.#position, this.signal);
      const changed = changes.since(this.#position, READ_AT_ONCE);
      if (changed === undefined) {
        yield* this.#snapshot();
        continue;
      }
      const updates = await this.#updatesOf(changed.keys);
      this.#position = changed.position;
      for (const [index, update] of updates.entries()) {
        // Only the last message of a batch carries the resume token.
        yield this.#message(update, index === updates.length - 1);
      }
    }
  }

  async *#snapshot(): AsyncGenerator<Message<Changed | Removed>> {
    const { tableChanges, tablet } = this.context;
    const { what, candidates, keyOf, matches, changed } = this.watched;
    // The position is taken before the first read, so changes made during the snapshot are sent again after it.
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

  /** Returns whether the watcher may hold the item. A resumed watcher may hold any item. */
  #mayKnow(item: Item | undefined, key: string): boolean {
    if (this.#sent !== undefined) return this.#sent.delete(key);
    return item === undefined || this.watched.mayHaveMatched(item);
  }

  #message(update: Changed | Removed | SnapshotUpdate, complete: boolean): Message<Changed | Removed> {
    const { tabletGeneration } = this.context.fleet.leader();
    return { update, resumeToken: complete ? `${this.watched.what}.${tabletGeneration}.${this.#position}` : "" };
  }
}

/**
 * Returns the position at which the watch continues; undefined when it must begin with a snapshot, because the token is
 * empty or of another leader.
 */
function parseResumeToken(
  { fleet, tableChanges }: Context,
  what: keyof Context["tableChanges"],
  token: string,
): number | undefined {
  if (token === "") return undefined;
  const [, of, generation, position] = /^([a-z]+)\.(\d{1,15})\.(\d{1,15})$/.exec(token) ?? [];
  if (of !== what || generation === undefined || position === undefined)
    throw new InvalidArgumentError(
      `resume_token is malformed: give the last resume_token of an earlier watch of ${what}, unchanged`,
      {
        about: { field: "resume_token" },
      },
    );
  // Positions of another leader are not comparable, because each leader counts from the start.
  if (Number(generation) !== fleet.leader().tabletGeneration) return undefined;
  return tableChanges[what].since(Number(position), 0) === undefined ? undefined : Number(position);
}
