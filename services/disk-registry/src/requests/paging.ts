import { InvalidArgumentError, parseId } from "@diskmesh/domain";

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

/** Tokens are opaque to callers; they name the last thing of the page before, which may be gone by now. */
export function parsePage(request: { pageSize: number; pageToken: string }, limits: PageLimits): PageRequest {
  const { pageSize, pageToken } = request;
  if (pageSize < 0) {
    throw new InvalidArgumentError(`page_size is ${pageSize}: it must be 0 (for the default) or more`, {
      about: { field: "page_size" },
    });
  }
  return {
    pageSize: Math.min(pageSize === 0 ? limits.defaultPageSize : pageSize, limits.maxPageSize),
    after: pageToken === "" ? undefined : parseToken(pageToken),
  };
}

function tokenOf(key: string): string {
  return Buffer.from(key, "utf8").toString("base64url");
}

function parseToken(token: string): string {
  const key = Buffer.from(token, "base64url").toString("utf8");
  try {
    if (tokenOf(key) === token) return parseId("page_token", key);
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
  matches: (item: T) => boolean,
  { pageSize }: PageRequest,
  { maxScannedPerPage }: PageLimits,
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
