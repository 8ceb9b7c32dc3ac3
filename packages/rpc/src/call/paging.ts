import { createHash, randomBytes } from "node:crypto";
import { AbortedError, formatIdentity, InvalidArgumentError } from "@diskmesh/domain";
import type { CallContext } from "./call-context.js";

interface PageLimits {
  readonly defaultPageSize: number;
  readonly maxPageSize: number;
  readonly maxScannedPerPage: number;
}

export interface ListLimits extends PageLimits {
  /** Maximum number of unfinished lists of all callers together. */
  readonly maxKeptLists: number;
  /**
   * Number of document changes after which a list's snapshot is dropped. It bounds the memory for old versions of
   * documents, regardless of the number of lists.
   */
  readonly maxKeptChanges: number;
}

export const LIST_LIMITS: ListLimits = {
  defaultPageSize: 100,
  // Sized so that a page of the longest items fits into one message.
  maxPageSize: 1_000,
  // A scan of this length takes tens of milliseconds. A page whose scan reaches this limit may be short or empty and
  // still have a next page.
  maxScannedPerPage: 100_000,
  maxKeptLists: 1_000,
  // Takes about 200 MiB at 1 KiB per document.
  maxKeptChanges: 200_000,
};

/** Content of a table at the moment when the list began. */
interface Snapshot<Item> {
  entries(options: { readonly after?: string | undefined }): Iterable<Item>;
}

interface ListedTablet<Tables> {
  read<T>(fn: (tables: Tables) => T): Promise<T>;
  watch(listener: (changes: readonly unknown[]) => void): () => void;
}

/** A list request; fields other than these are filters. */
interface ListRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

export interface List<Tables, Item, Message> {
  /** Plural noun such as "hosts". Used in messages, and to detect a page token of another list. */
  readonly what: string;
  readonly begin: (tables: Tables) => Snapshot<Item>;
  readonly keyOf: (item: Item) => string;
  readonly matches?: (item: Item) => boolean;
  /** Converts an item to its message. Derived fields come from the current tables. */
  readonly describe: (tables: Tables, item: Item) => Message;
}

export interface Page<Message> {
  readonly items: readonly Message[];
  readonly nextPageToken: string;
}

/** A list whose last page was not requested yet. */
interface KeptList {
  readonly snapshot: Snapshot<unknown>;
  /** Kind and filters of the list. A request with a page token must have the same. */
  readonly asked: string;
  readonly caller: string;
  /** Value of the change counter when the list began. */
  readonly begunAt: number;
}

/**
 * Answers lists page by page from one snapshot, taken with the first page. Paging by ascending key alone would show
 * each unchanged item once, but tear items that change together: when a disk moves between hosts, one page would show
 * the old state of one host and a later page the new state of the other.
 *
 * A list with a second page therefore keeps its snapshot, which its page tokens name. Tables are copied on write, so a
 * snapshot costs memory only for changed documents. A snapshot is dropped after a number of changes, not after a time:
 * a person may take an hour between pages on an idle fleet, and memory stays bounded on a busy one. The caller with the
 * most lists loses its oldest first. A page token of a dropped list, or of another leader, fails with ABORTED; the
 * caller then starts over.
 */
export class KeptLists<Tables> {
  /** Lists in the order in which they began. */
  readonly #kept = new Map<string, KeptList>();
  /** Random id of this leader, to recognize page tokens of other leaders. */
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
        `the server no longer keeps this list of ${what} (a new leader, many changes, many other lists, or read to its end): list again without page_token`,
        { reason: "LIST_EXPIRED", about: { field: "page_token" } },
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

/** Encodes an opaque page token: the list, and the last item of the previous page. */
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

/** Does not quote the token, because a caller only passes it on and cannot correct it. */
function malformed(): InvalidArgumentError {
  return new InvalidArgumentError("page_token is malformed: give the next_page_token of the previous page, unchanged", {
    about: { field: "page_token" },
  });
}

/**
 * Encodes the page token of a list whose items never change their place: the end of the previous page, and a digest of
 * the filters.
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
    "page_token belongs to a list of other objects or with other filters: repeat the request with the same filters",
    { about: { field: "page_token" } },
  );
}

/** Returns the first page of matching items. The page ends early when the scan limit is reached. */
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
    // Checked before a further candidate instead of after the last item: a full page gets a next page only if a
    // candidate is left.
    if (items.length === pageSize || scanned === maxScanned) return { items, lastKey };
    scanned++;
    lastKey = keyOf(item);
    if (matches(item)) items.push(item);
  }
  return { items, lastKey: undefined };
}
