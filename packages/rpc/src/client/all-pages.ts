import type { Page } from "../call/paging.js";

/** Returns a whole list, read page by page. */
export async function allPages<Message>(pageOf: (pageToken: string) => Promise<Page<Message>>): Promise<Message[]> {
  const all: Message[] = [];
  let pageToken = "";
  do {
    const { items, nextPageToken } = await pageOf(pageToken);
    all.push(...items);
    pageToken = nextPageToken;
  } while (pageToken !== "");
  return all;
}
