import { existsSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { LOCK_FILE_BYTES } from "./room.js";

/** Made once a folder holds data, so that a folder whose data is gone is not taken for a new one. */
const MARK = "holds-data";
const MARK_TEXT =
  "data.mdb beside this file holds the state of a diskmesh service. If data.mdb is gone, restore a backup.\n";

/** In the first release LMDB made it with data.mdb, and it stayed. Now it is made before, and longer. */
const LMDB_LOCK = "lock.mdb";

export function markEarlierLife(folder: string): void {
  const path = join(folder, MARK);
  if (!existsSync(path)) writeFileSync(path, MARK_TEXT, { mode: 0o600 });
}

export function hadEarlierLife(folder: string): boolean {
  return existsSync(join(folder, MARK));
}

/** Throws when the folder held data once, and does not any more. */
export function refuseLostData(folder: string): void {
  const sizeBytes = statSync(join(folder, "data.mdb"), { throwIfNoEntry: false })?.size;
  if (sizeBytes !== undefined && sizeBytes > 0) return;
  const trace = hadEarlierLife(folder) ? MARK : sizeBytes === undefined && hasFirstReleaseLock(folder) ? LMDB_LOCK : "";
  if (trace === "") return;
  const what = sizeBytes === undefined ? "missing" : "empty";
  throw new Error(
    `data.mdb is ${what}, and ${trace} beside it shows that it held data; if that must not come back, remove the folder`,
  );
}

function hasFirstReleaseLock(folder: string): boolean {
  const lock = statSync(join(folder, LMDB_LOCK), { throwIfNoEntry: false });
  return lock !== undefined && lock.size !== LOCK_FILE_BYTES;
}
