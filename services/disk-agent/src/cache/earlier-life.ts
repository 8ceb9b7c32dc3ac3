import { replaceFile } from "@diskmesh/atomic-file";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import { type CacheFileSystem, readIfThere } from "./cache-file.js";

const TEXT =
  "An agent has run with this folder. Without its cache it opens no device before it has registered; " +
  "without this file and the cache it takes its next start for its first ever, and opens all.\n";

/**
 * Returns whether an agent has run here before. The evidence is a mark file outside the cache, or any cache file
 * (`hasCache`). Creates a missing mark file durably, before the agent remembers anything.
 */
export async function hasEarlierLife(markFile: string, hasCache: boolean, files: CacheFileSystem): Promise<boolean> {
  // A mark that cannot be read is there.
  if ((await readIfThere(markFile, files)) !== undefined) return true;
  try {
    await replaceFile(markFile, TEXT, { files });
  } catch (error) {
    throw new UnavailableError(`the agent cannot write ${markFile}: ${messageOf(error)}`, { cause: error });
  }
  return hasCache;
}
