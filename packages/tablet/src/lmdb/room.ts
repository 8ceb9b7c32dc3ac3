import { randomUUID } from "node:crypto";
import {
  closeSync,
  existsSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  type StatsFs,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { getSystemErrorName } from "node:util";
import { DiskFullError, diskFullError, messageOf } from "@diskmesh/domain";

const MIB_BYTES = 1024 * 1024;

/** A new environment takes about ten pages before its first commit. */
const NEW_ENVIRONMENT_BYTES = MIB_BYTES;
/** More than one commit writes. */
const COMMIT_BYTES = 16 * MIB_BYTES;
/** What a change may take beside its own bytes: a page that is copied, and half of one that is split. */
export const CHANGE_BYTES = 2 * 4_096;
/** What a transaction may take beside its changes: the pages above theirs, and the list of those that it frees. */
const TRANSACTION_BYTES = 64 * 4_096;
/**
 * ext4 keeps the lesser of 2 % of its blocks and so many of them back from everybody, root too, and yet counts them as
 * free. A little more than 2 %, because the count that is told leaves out what the file system takes itself.
 */
const KEPT_BACK_SHARE = 0.025;
const KEPT_BACK_BLOCKS = 4_096;
/** LMDB makes it 8,272 bytes long, and takes a longer one as it is. */
export const LOCK_FILE_BYTES = 3 * 4_096;

/** LMDB's code for an environment that may not grow beyond its map. */
const MAP_FULL = -30792;

/**
 * What an error from LMDB, or from the file system, means when there was no room for what it wrote; undefined when it
 * means something else. LMDB reports a write of which the disk took only a part as EIO, as it does a write that failed:
 * which of the two it was is found out by writing.
 */
export function noRoomError(
  error: unknown,
  doing: string,
  folder: string,
  outcome: "not_done" | "unknown" = "not_done",
): DiskFullError | undefined {
  const code = (error as { code?: unknown } | undefined)?.code;
  if (code === MAP_FULL) {
    const text = `${doing}: the database in ${folder} has reached its largest size: delete things (${messageOf(error)})`;
    return new DiskFullError(text, { cause: error, outcome });
  }
  // The file system's own errors have names, LMDB's have numbers.
  if (typeof code !== "number" || code <= 0) return diskFullError(error, doing, folder, outcome);
  const name = getSystemErrorName(-code);
  const reason =
    name === "EIO"
      ? failureOfWriting(COMMIT_BYTES, folder)
      : Object.assign(new Error(messageOf(error)), { code: name });
  return diskFullError(reason, doing, folder, outcome);
}

/**
 * Throws what keeps an environment from being made in the folder. Where there is no room for a new data file, or for
 * the lock file, which LMDB maps, it would end the process with a signal instead of an error.
 */
export function checkRoom(folder: string): void {
  if ((statSync(join(folder, "data.mdb"), { throwIfNoEntry: false })?.size ?? 0) === 0) {
    const failure = failureOfWriting(NEW_ENVIRONMENT_BYTES, folder);
    if (failure !== undefined) throw failure;
  }
  if (!existsSync(join(folder, "lock.mdb"))) makeLockFile(folder);
}

/** The room that a data file has to grow. */
export class Room {
  readonly #folder: string;
  readonly #fileSizeMaxBytes = fileSizeMaxBytes();

  constructor(folder: string) {
    this.#folder = folder;
  }

  /**
   * Throws as a write would when a transaction of so many bytes may not find room. lmdb 3.5 must not find that out by
   * itself: its words for a write that failed are longer than the memory that it takes for them, which ends the process
   * by a signal sooner or later. A quota shows only when it is exceeded.
   */
  check(sizeBytes: number): void {
    const neededBytes = sizeBytes + TRANSACTION_BYTES;
    const free = statfsSync(this.#folder);
    const freeBytes = free.bsize * (process.geteuid?.() === 0 ? freeForRoot(free) : free.bavail);
    // Some file systems do not say how large they are.
    if (free.blocks > 0 && freeBytes < neededBytes) throw refusedWrite("ENOSPC", neededBytes, freeBytes);
    if (this.#fileSizeMaxBytes === Number.POSITIVE_INFINITY) return;
    const leftBytes = this.#fileSizeMaxBytes - statSync(join(this.#folder, "data.mdb")).size;
    if (leftBytes < neededBytes) throw refusedWrite("EFBIG", neededBytes, leftBytes);
  }
}

function freeForRoot({ blocks, bfree }: StatsFs): number {
  return Math.max(0, bfree - Math.min(Math.ceil(blocks * KEPT_BACK_SHARE), KEPT_BACK_BLOCKS));
}

function refusedWrite(code: string, neededBytes: number, freeBytes: number): Error {
  return Object.assign(new Error(`${code}: a write may need ${neededBytes} bytes, and ${freeBytes} are free`), {
    code,
  });
}

/** The limit that this process has, as shells set it by `ulimit -f`. */
function fileSizeMaxBytes(): number {
  try {
    const [, limit] = /^Max file size +([0-9]+) /m.exec(readFileSync("/proc/self/limits", "utf8")) ?? [];
    return Number(limit ?? Number.POSITIVE_INFINITY);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

/** Written to its end: what LMDB makes is a hole until the map is used, and by then there may be no room. */
function makeLockFile(folder: string): void {
  const draft = join(folder, `lock.mdb.${randomUUID()}`);
  try {
    writeFileSync(draft, Buffer.alloc(LOCK_FILE_BYTES), { mode: 0o600 });
    // Never in the place of one that somebody else has mapped by now.
    linkSync(draft, join(folder, "lock.mdb"));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  } finally {
    rmSync(draft, { force: true });
  }
}

/** Undefined when so many bytes could be written. */
function failureOfWriting(sizeBytes: number, folder: string): unknown {
  const path = join(folder, `room.${randomUUID()}`);
  const piece = Buffer.alloc(MIB_BYTES);
  let file: number | undefined;
  try {
    file = openSync(path, "wx", 0o600);
    for (let written = 0; written < sizeBytes; ) written += writeSync(file, piece);
    return undefined;
  } catch (error) {
    return error;
  } finally {
    if (file !== undefined) closeSync(file);
    rmSync(path, { force: true });
  }
}
