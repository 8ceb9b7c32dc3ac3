import { AbortedError } from "@diskmesh/domain";
import type { Page } from "../call/paging.js";

/** A list that was overtaken so often is on a fleet that changes faster than its pages come. */
const MAX_BEGINNINGS = 5;

/** The whole list of one moment: read page by page, and begun again when its pages are not kept any more. */
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
