import { AbortedError } from "@diskmesh/domain";
import type { Page } from "../call/paging.js";

/** Maximum number of restarts. Beyond it, the list changes faster than its pages can be read. */
const MAX_BEGINNINGS = 5;

/**
 * Returns a whole list as of one moment. Reads it page by page, and begins again when its snapshot is no longer kept.
 */
export async function allPages<Message>(pageOf: (pageToken: string) => Promise<Page<Message>>): Promise<Message[]> {
  for (let begun = 1; ; begun++) {
    try {
      const all: Message[] = [];
      let pageToken = "";
      do {
        const { items, nextPageToken } = await pageOf(pageToken);
        all.push(...items);
        pageToken = nextPageToken;
      } while (pageToken !== "");
      return all;
    } catch (error) {
      if (!(error instanceof AbortedError) || begun === MAX_BEGINNINGS) throw error;
    }
  }
}
