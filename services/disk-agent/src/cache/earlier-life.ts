import * as nodeFiles from "node:fs/promises";
import { replaceFile } from "@diskmesh/atomic-file";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import type { CacheFileSystem } from "./cache-file.js";

const TEXT =
  "An agent has run with this folder. Without its cache it opens no device before it has registered; " +
  "without this file and the cache it takes its next start for its first ever, and opens all.\n";

/**
 * Returns whether an agent has run here before, by a mark file apart from its cache. Creates a missing mark durably,
 * before there is anything to forget. `hasCache` says that a cache file exists, in any state, which proves an earlier
 * run as well.
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
    // A mark that cannot be read exists.
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") return true;
  }
  try {
    await replaceFile(markFile, TEXT, { files });
  } catch (error) {
    throw new UnavailableError(`the agent cannot write ${markFile}: ${messageOf(error)}`, { cause: error });
  }
  return hasCache;
}
