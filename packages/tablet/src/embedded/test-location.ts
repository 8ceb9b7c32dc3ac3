import type { TabletStorage } from "../storage.js";
import { openEmbeddedStorage } from "./embedded-storage.js";

/** A location for the contract suite and its child processes: a folder, without the lock, so that leaders can compete. */
export function openLocation(folder: string): TabletStorage {
  return openEmbeddedStorage({ folder, exclusive: false });
}

/** The same with a snapshot every few commits. */
export function openWithSnapshots(folder: string): TabletStorage {
  return openEmbeddedStorage({ folder, exclusive: false, journalsBytesMin: 2_048 });
}
