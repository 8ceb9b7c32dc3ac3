import { BadRequestError } from "./http-error.js";

interface PageAnswer {
  readonly nextPageToken: string;
}

/** The paging fields of every list request. */
interface PageRequest {
  readonly pageSize: number;
  readonly pageToken: string;
}

/** Lists all pages of a gRPC list method and converts each page for the HTTP API. */
export async function* pagesOf<Response extends PageAnswer, Item>(
  list: (page: PageRequest) => Promise<Response>,
  itemsOf: (response: Response) => readonly Item[],
): AsyncGenerator<readonly Item[]> {
  let pageToken = "";
  do {
    const response = await list({ pageSize: 0, pageToken });
    yield itemsOf(response);
    pageToken = response.nextPageToken;
  } while (pageToken !== "");
}

/** Maximum number of items that are converted to text at a time. */
const PART = 200;

/** Yields a list's items in converted parts, so that the whole text is never in memory. */
export async function* partsOf<Item, Shown>(
  items: readonly Item[],
  show: (item: Item) => Shown | Promise<Shown>,
): AsyncGenerator<readonly Shown[]> {
  for (let at = 0; at < items.length; at += PART) yield await Promise.all(items.slice(at, at + PART).map(show));
}

/** Yields the pages of both lists. */
export async function* bothOf<Item>(
  first: AsyncGenerator<readonly Item[]>,
  second: AsyncGenerator<readonly Item[]>,
): AsyncGenerator<readonly Item[]> {
  yield* first;
  yield* second;
}

/** Yields the first `count` items. */
export async function* firstOf<Item>(
  pages: AsyncGenerator<readonly Item[]>,
  count: number,
): AsyncGenerator<readonly Item[]> {
  let left = count;
  for await (const page of pages) {
    yield page.slice(0, left);
    left -= page.length;
    if (left <= 0) return;
  }
}

const NO_LIMIT = 1_000_000;

/** Parses the `limit` parameter: the requested number of items. */
export function limitOf(text: string | null): number {
  if (text === null || text === "") return NO_LIMIT;
  if (/^[1-9]\d{0,5}$/.test(text)) return Number(text);
  throw new BadRequestError("limit must be a whole number of at least 1");
}
