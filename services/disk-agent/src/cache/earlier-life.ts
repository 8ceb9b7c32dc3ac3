import * as nodeFiles from "node:fs/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import type { CacheFileSystem } from "./cache-file.js";

const TEXT =
  "An agent has run with this folder. Without its cache it opens no device before it has registered; " +
  "without this file and the cache it takes its next start for its first ever, and opens all.\n";

/**
 * Whether an agent has run here before, by a mark apart from its cache. Makes the mark where there is none, so that it is
 * there, durably, before there is anything to forget. `hasCache`: a cache shows an earlier life as well, however it is.
 */
export async function hasEarlierLife(
  markFile: string,
  hasCache: boolean,
  files: CacheFileSystem = nodeFiles,
): Promise<boolean> {
  try {
    await files.readFile(markFile, "utf8");
    return true;
  } catch (error) {
    // One that cannot be read is there.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") return true;
  }
  try {
    await replaceFile(markFile, TEXT, { files });
  } catch (error) {
    throw new UnavailableError(`the agent cannot write ${markFile}: ${messageOf(error)}`, { cause: error });
  }
  return hasCache;
}
