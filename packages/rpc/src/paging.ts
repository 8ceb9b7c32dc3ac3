import { InvalidArgumentError } from "@diskmesh/domain";

export interface PageLimits {
  readonly defaultPageSize: number;
  readonly maxPageSize: number;
  readonly maxScannedPerPage: number;
}

export interface PageRequest {
  readonly pageSize: number;
  /** Only what comes after this key. */
  readonly after: string | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextPageToken: string;
}

/**
 * Tokens are opaque to callers; they name the last thing of the page before, which may be gone by now. `parseKey` throws
 * for what names nothing of the kind.
 */
export function parsePage(
  { pageSize, pageToken }: { readonly pageSize: number; readonly pageToken: string },
  limits: PageLimits,
  parseKey: (key: string) => unknown,
): PageRequest {
  return {
    pageSize: parsePageSize(pageSize, limits),
    after: pageToken === "" ? undefined : parseToken(pageToken, parseKey),
  };
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

function tokenOf(key: string): string {
  return Buffer.from(key, "utf8").toString("base64url");
}

function parseToken(token: string, parseKey: (key: string) => unknown): string {
  const key = Buffer.from(token, "base64url").toString("utf8");
  try {
    if (tokenOf(key) === token) {
      parseKey(key);
      return key;
    }
  } catch {
    // Said below, without quoting what the caller never wrote.
  }
  throw new InvalidArgumentError("page_token is malformed: give the next_page_token of the previous page, unchanged", {
    about: { field: "page_token" },
  });
}

/** The first page of what matches. A page ends early when too much had to be looked at for it. */
export function takePage<T>(
  candidates: Iterable<T>,
  keyOf: (item: T) => string,
  { pageSize }: PageRequest,
  { maxScannedPerPage }: PageLimits,
  matches: (item: T) => boolean = () => true,
): Page<T> {
  const items: T[] = [];
  let scanned = 0;
  let lastKey = "";
  for (const item of candidates) {
    // Only now is it known that there is more.
    if (items.length === pageSize || scanned === maxScannedPerPage) return { items, nextPageToken: tokenOf(lastKey) };
    scanned++;
    lastKey = keyOf(item);
    if (matches(item)) items.push(item);
  }
  return { items, nextPageToken: "" };
}
