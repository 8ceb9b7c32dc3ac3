import { closeSync, fstatSync, ftruncateSync, openSync, readSync } from "node:fs";

// Where LMDB's meta pages, the first two of the file, hold what is checked here (64-bit layout of lmdb-js 3).
const MAGIC_OFFSET = 24;
const MAGIC = 0xbeefc0de;
const PAGE_SIZE_OFFSET = 48;
const LAST_PAGE_OFFSET = 144;
const TRANSACTION_OFFSET = 152;
const META_SIZE_BYTES = 160;

/** How far the pages of a file may go beyond its end: those that were freed before they were written. */
const MISSING_PAGES_SHARE = 64;

/**
 * Makes a data file safe to map, or throws with the reason why it is not one. LMDB trusts its file: without this,
 * opening a foreign or truncated one ends the process with a signal instead of an error. False when there is none yet.
 */
export function checkDataFile(path: string): boolean {
  let file: number;
  try {
    file = openSync(path, "r+");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    if (size === 0) return false;
    const first = readMeta(file, 0);
    if (first === undefined) throw new Error("data.mdb is not a database file");
    const second = readMeta(file, first.pageSizeBytes);
    const latest = second !== undefined && second.transaction > first.transaction ? second : first;
    const wholeSizeBytes = (latest.lastPage + 1) * latest.pageSizeBytes;
    // Pages at the end that were freed before they were written leave a sound file short. If instead the end was cut
    // off, zeros in its place make LMDB report the damage, where a hole behind the end would be a SIGBUS.
    if (size < wholeSizeBytes / MISSING_PAGES_SHARE) {
      throw new Error(`data.mdb is damaged: it has ${size} bytes, and by its header ${wholeSizeBytes}`);
    }
    if (size < wholeSizeBytes) ftruncateSync(file, wholeSizeBytes);
    return true;
  } finally {
    closeSync(file);
  }
}

function readMeta(
  file: number,
  position: number,
): { pageSizeBytes: number; lastPage: number; transaction: bigint } | undefined {
  const meta = Buffer.alloc(META_SIZE_BYTES);
  if (readSync(file, meta, 0, META_SIZE_BYTES, position) < META_SIZE_BYTES) return undefined;
  const pageSizeBytes = meta.readUInt32LE(PAGE_SIZE_OFFSET);
  const lastPage = Number(meta.readBigUInt64LE(LAST_PAGE_OFFSET));
  if (meta.readUInt32LE(MAGIC_OFFSET) !== MAGIC) return undefined;
  if (pageSizeBytes < 512 || pageSizeBytes > 65_536 || lastPage >= 2 ** 36) return undefined;
  return { pageSizeBytes, lastPage, transaction: meta.readBigUInt64LE(TRANSACTION_OFFSET) };
}
