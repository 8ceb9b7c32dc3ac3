import type { TabletStorage } from "../storage.js";
import { openLmdbStorage } from "./lmdb-storage.js";

/** For the contract suite and its child processes: a folder, without the lock, so that leaders can compete. */
export function openLocation(folder: string): TabletStorage {
  return openLmdbStorage({ folder, exclusive: false });
}
