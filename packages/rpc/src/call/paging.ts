import { createHash, randomBytes } from "node:crypto";
import { AbortedError, formatIdentity, InvalidArgumentError } from "@diskmesh/domain";
import type { CallContext } from "./call-context.js";

interface PageLimits {
  readonly defaultPageSize: number;
  readonly maxPageSize: number;
  readonly maxScannedPerPage: number;
}

export interface ListLimits extends PageLimits {
  /** Lists of all callers that were begun and not read to their end. */
  readonly maxKeptLists: number;
  /** Documents that may change while a list is read: so many former ones stay in memory, whatever the number of lists. */
  readonly maxKeptChanges: number;
}

export const LIST_LIMITS: ListLimits = {
  defaultPageSize: 100,
  // A page of the longest descriptions stays within a message.
  maxPageSize: 1_000,
  // Tens of milliseconds of work; a page that finds less may be short, or empty, and have a next one.
  maxScannedPerPage: 100_000,
  maxKeptLists: 1_000,
  // Some 200 MiB of documents of 1 KiB.
  maxKeptChanges: 200_000,
};

/** What a list shows, as it was when the list began. */
interface Snapshot<Item> {
  entries(options: { readonly after?: string | undefined }): Iterable<Item>;
}

/** A tablet, as lists need it. */
interface ListedTablet<Tables> {
  read<T>(fn: (tables: Tables) => T): Promise<T>;
  /** Calls back with what each commit changed. */
  watch(listener: (changes: readonly unknown[]) => void): () => void;
}

/** Every other field of the request is a filter. */
interface ListRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

export interface List<Tables, Item, Message> {
  /** For messages, and to tell lists apart: "hosts". */
  readonly what: string;
  readonly begin: (tables: Tables) => Snapshot<Item>;
  readonly keyOf: (item: Item) => string;
  readonly matches?: (item: Item) => boolean;
  /** Is given the tables of now: what is worked out from them is of the moment of the page. */
  readonly describe: (tables: Tables, item: Item) => Message;
}

export interface Page<Message> {
  readonly items: readonly Message[];
  readonly nextPageToken: string;
}

/** A list that was begun. */
interface KeptList {
  readonly snapshot: Snapshot<unknown>;
  /** What is listed, and by which filters. */
  readonly asked: string;
  readonly caller: string;
  /** How many documents had changed when it began. */
  readonly begunAt: number;
}

/**
 * Lists that are answered page by page, each of one moment: that of its first page. Keys that only go up would show what
 * was there all the time once; but of two things that change together, as a disk that moves between hosts, one page would
 * show the one as it was and a later page the other as it is, or neither.
 *
 * So a list that needs a second page keeps its snapshot, whose copy-on-write costs memory for what changes and nothing
 * else, and its page tokens name it. It is kept for a number of changes rather than for a time: on a fleet at rest a
 * person may take an hour between pages, and on a busy one the memory is bounded. Whoever begins the most lists loses
 * the oldest first. A list that is not kept any more, or was begun under another leader, is ABORTED, to be begun again;
 * none is ever shorter than it was.
 */
export class KeptLists<Tables> {
  /** In the order in which they began. */
  readonly #kept = new Map<string, KeptList>();
  /** Other leaders' tokens are told by it. */
  readonly #leader = randomBytes(6).toString("hex");
  readonly #unwatch: () => void;
  #begun = 0;
  #changes = 0;

  constructor(
    private readonly tablet: ListedTablet<Tables>,
    private readonly limits: ListLimits,
  ) {
    this.#unwatch = tablet.watch((changes) => this.#onChanges(changes.length));
  }

  async page<Item, Message>(
    request: ListRequest,
    call: Pick<CallContext, "identity">,
    list: List<Tables, Item, Message>,
  ): Promise<Page<Message>> {
    const { pageSize, pageToken, ...filters } = request;
    const size = parsePageSize(pageSize, this.limits);
    const asked = JSON.stringify([list.what, filters]);
    const { id, after } = pageToken === "" ? {} : parseToken(pageToken);
    return this.tablet.read((tables) => {
      const snapshot = id === undefined ? list.begin(tables) : (this.#find(id, list.what, asked) as Snapshot<Item>);
      const { items, lastKey } = takePage(snapshot.entries({ after }), list, size, this.limits.maxScannedPerPage);
      const messages = items.map((item) => list.describe(tables, item));
      if (lastKey === undefined) {
        if (id !== undefined) this.#kept.delete(id);
        return { items: messages, nextPageToken: "" };
      }
      return { items: messages, nextPageToken: tokenOf(id ?? this.#keep(snapshot, asked, call), lastKey) };
    });
  }

  close(): void {
    this.#unwatch();
    this.#kept.clear();
  }

  #find(id: string, what: string, asked: string): Snapshot<unknown> {
    const kept = this.#kept.get(id);
    if (kept === undefined)
      throw new AbortedError(
        `this list of ${what} is not kept any more: another process leads now, much has changed since it began, many others were begun, or it was read to its end; begin it again, without page_token`,
        { about: { field: "page_token" } },
      );
    if (kept.asked !== asked) throw otherList();
    return kept.snapshot;
  }

  #keep(snapshot: Snapshot<unknown>, asked: string, { identity }: Pick<CallContext, "identity">): string {
    if (this.#kept.size >= this.limits.maxKeptLists) this.#kept.delete(this.#oldestOfMost());
    const id = `${this.#leader}${++this.#begun}`;
    this.#kept.set(id, { snapshot, asked, caller: formatIdentity(identity), begunAt: this.#changes });
    return id;
  }

  #oldestOfMost(): string {
    const counts = new Map<string, number>();
    for (const { caller } of this.#kept.values()) counts.set(caller, (counts.get(caller) ?? 0) + 1);
    const most = Math.max(...counts.values());
    const [id] = [...this.#kept].find(([, { caller }]) => counts.get(caller) === most) ?? [""];
    return id;
  }

  #onChanges(count: number): void {
    this.#changes += count;
    for (const [id, { begunAt }] of this.#kept) {
      if (this.#changes - begunAt <= this.limits.maxKeptChanges) return;
      this.#kept.delete(id);
    }
  }
}

export function parsePageSize(
  value: number,
  { defaultPageSize, maxPageSize }: Pick<PageLimits, "defaultPageSize" | "maxPageSize">,
  field = "page_size",
): number {
  if (value < 0) {
    throw new InvalidArgumentError(`${field} is ${value}: it must be 0 (for the default) or more`, {
      about: { field },
    });
  }
  return Math.min(value === 0 ? defaultPageSize : value, maxPageSize);
}

/** Opaque to callers: the list, and the last thing of the page before. */
function tokenOf(id: string, lastKey: string): string {
  return Buffer.from(`${id} ${lastKey}`, "utf8").toString("base64url");
}

const TOKEN_MAX_LENGTH = 8_192;

function parseToken(token: string): { readonly id: string; readonly after: string } {
  const text = token.length > TOKEN_MAX_LENGTH ? "" : Buffer.from(token, "base64url").toString("utf8");
  const [, id, after] = /^([0-9a-f]{12}\d{1,15}) (.+)$/s.exec(text) ?? [];
  if (id !== undefined && after !== undefined && tokenOf(id, after) === token) return { id, after };
  throw malformed();
}

/** Without quoting what the caller never wrote. */
function malformed(): InvalidArgumentError {
  return new InvalidArgumentError("page_token is malformed: give the next_page_token of the previous page, unchanged", {
    about: { field: "page_token" },
  });
}

/**
 * The token of a list whose things never change their places, so that a page needs to know no more than where the one before
 * ended, and by which filters.
 */
export function placeToken(place: string, filters: object): string {
  return tokenOf(digestOf(filters), place);
}

export function parsePlace(token: string, filters: object): string {
  const text = token.length > TOKEN_MAX_LENGTH ? "" : Buffer.from(token, "base64url").toString("utf8");
  const [, digest, place] = /^([0-9a-f]{12}) ([A-Za-z0-9_.-]{1,100})$/.exec(text) ?? [];
  if (digest === undefined || place === undefined || tokenOf(digest, place) !== token) throw malformed();
  if (digest !== digestOf(filters)) throw otherList();
  return place;
}

function digestOf(filters: object): string {
  return createHash("sha256").update(JSON.stringify(filters)).digest("hex").slice(0, 12);
}

function otherList(): InvalidArgumentError {
  return new InvalidArgumentError(
    "page_token is of a list of other things, or with other filters: give the same ones",
    { about: { field: "page_token" } },
  );
}

/** The first page of what matches. It ends early when too much had to be looked at for it. */
function takePage<Item>(
  candidates: Iterable<Item>,
  { keyOf, matches = () => true }: Pick<List<never, Item, never>, "keyOf" | "matches">,
  pageSize: number,
  maxScanned: number,
): { readonly items: readonly Item[]; readonly lastKey: string | undefined } {
  const items: Item[] = [];
  let scanned = 0;
  let lastKey = "";
  for (const item of candidates) {
    // Only now is it known that there is more.
    if (items.length === pageSize || scanned === maxScanned) return { items, lastKey };
    scanned++;
    lastKey = keyOf(item);
    if (matches(item)) items.push(item);
  }
  return { items, lastKey: undefined };
}
