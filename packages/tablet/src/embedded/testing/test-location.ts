import type { TabletStorage } from "../../storage/storage.js";
import { openEmbeddedStorage } from "../embedded-storage.js";

/** Opens a folder for the contract suite and its child processes. Without the lock, so that several leaders compete. */
export function openLocation(folder: string): TabletStorage {
  return openEmbeddedStorage({ folder, exclusive: false });
}

/** Like `openLocation`, with a snapshot every few commits. */
export function openWithSnapshots(folder: string): TabletStorage {
  return openEmbeddedStorage({ folder, exclusive: false, journalsBytesMin: 2_048 });
}
