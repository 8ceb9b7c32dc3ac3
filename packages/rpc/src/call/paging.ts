import { createHash } from "node:crypto";
import { InvalidArgumentError } from "@diskmesh/domain";

interface ListLimits {
  readonly defaultPageSize: number;
  readonly maxPageSize: number;
  readonly maxScannedPerPage: number;
}

export const LIST_LIMITS: ListLimits = {
  defaultPageSize: 100,
  // Sized so that a page of the longest items fits into one message.
  maxPageSize: 1_000,
  // A scan of this length takes tens of milliseconds. A page whose scan reaches this limit may be short or empty and
  // still have a next page.
  maxScannedPerPage: 100_000,
};

interface ListedTablet<Tables> {
  read<T>(fn: (tables: Tables) => T): Promise<T>;
}

/** A list request; fields other than these are filters. */
interface ListRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

export interface List<Tables, Item, Message> {
  /** Plural noun such as "hosts". Used in messages, and to detect a page token of another list. */
  readonly what: string;
  /** Returns the items in order of key, without those up to `after`. */
  readonly rows: (tables: Tables, from: { readonly after?: string | undefined }) => Iterable<Item>;
  readonly keyOf: (item: Item) => string;
  readonly matches?: (item: Item) => boolean;
  /** Converts an item to its message. Derived fields come from the current tables. */
  readonly describe: (tables: Tables, item: Item) => Message;
}

export interface Page<Message> {
  readonly items: readonly Message[];
  readonly nextPageToken: string;
}

/**
 * Returns a page of a list in order of key, of the moment of the request. Each item that exists all the time is on one
 * page; items that change together may be on two pages as of different moments.
 */
export async function pageOf<Tables, Item, Message>(
  tablet: ListedTablet<Tables>,
  request: ListRequest,
  { what, rows, describe, ...list }: List<Tables, Item, Message>,
  limits: ListLimits = LIST_LIMITS,
): Promise<Page<Message>> {
  const { pageSize, pageToken, ...filters } = request;
  const size = parsePageSize(pageSize, limits);
  const asked = { what, ...filters };
  const after = pageToken === "" ? undefined : parsePlace(pageToken, asked);
  return tablet.read((tables) => {
    const { items, lastKey } = takePage(rows(tables, { after }), list, size, limits.maxScannedPerPage);
    const messages = items.map((item) => describe(tables, item));
    return { items: messages, nextPageToken: lastKey === undefined ? "" : placeToken(lastKey, asked) };
  });
}

interface ItemList<Item> {
  readonly what: string;
  /** Returns an item's key. Keys ascend in the list, and a key stays the same between requests. */
  readonly keyOf: (item: Item, at: number) => string;
}

/** Returns a page of a list that is in memory. */
export function pageOfItems<Item>(
  request: ListRequest,
  items: readonly Item[],
  { what, keyOf }: ItemList<Item>,
  limits: ListLimits = LIST_LIMITS,
): Page<Item> {
  const { pageSize, pageToken, ...filters } = request;
  const size = parsePageSize(pageSize, limits);
  const asked = { what, ...filters };
  const after = pageToken === "" ? undefined : parsePlace(pageToken, asked);
  const from = after === undefined ? 0 : items.findIndex((item, at) => keyOf(item, at) > after);
  if (from < 0) return { items: [], nextPageToken: "" };
  const page = items.slice(from, from + size);
  const last = page.at(-1);
  const isLast = last === undefined || from + page.length === items.length;
  return { items: page, nextPageToken: isLast ? "" : placeToken(keyOf(last, from + page.length - 1), asked) };
}

export function parsePageSize(
  value: number,
  { defaultPageSize, maxPageSize }: Pick<ListLimits, "defaultPageSize" | "maxPageSize">,
  field = "page_size",
): number {
  if (value < 0) {
    throw new InvalidArgumentError(`${field} is ${value}: it must be 0 (for the default) or more`, {
      about: { field },
    });
  }
  return Math.min(value === 0 ? defaultPageSize : value, maxPageSize);
}

/** Does not quote the token, because a caller only passes it on and cannot correct it. */
function malformed(): InvalidArgumentError {
  return new InvalidArgumentError("page_token is malformed: give the next_page_token of the previous page, unchanged", {
    about: { field: "page_token" },
  });
}

const TOKEN_MAX_LENGTH = 8_192;

/** Encodes an opaque page token: a digest of the filters, and the end of the previous page. */
export function placeToken(place: string, filters: object): string {
  return Buffer.from(`${digestOf(filters)} ${place}`, "utf8").toString("base64url");
}

export function parsePlace(token: string, filters: object): string {
  const text = token.length > TOKEN_MAX_LENGTH ? "" : Buffer.from(token, "base64url").toString("utf8");
  const [, digest, place] = /^([0-9a-f]{12}) (.+)$/s.exec(text) ?? [];
  const isWritten = Buffer.from(text, "utf8").toString("base64url") === token;
  if (digest === undefined || place === undefined || !isWritten) throw malformed();
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
