import { createRequire } from "node:module";
import { messageOf } from "@diskmesh/domain";

/** What became of an attempt to lock an open file. */
type LockAttempt =
  /** It is ours until the last descriptor of this open is closed, also by the death of the process. */
  | { readonly outcome: "locked" }
  /** Somebody else has a lock on it, on whichever of its bytes. */
  | { readonly outcome: "held" }
  /** The file system, or this machine, has no locks. */
  | { readonly outcome: "impossible"; readonly reason: string };

/** How files are locked; tests put other outcomes in between. */
export type FileLocking = (fd: number) => LockAttempt;

/**
 * The one byte that stays locked: beyond the end of every file, and far from the bytes 100 to 263 that QEMU locks, so
 * that its tools can look at a file that is held. It is below 2^53 - 1, to be a JavaScript number.
 */
const LOCKED_BYTE = 2 ** 50;

/**
 * Locks an open file against all other opens of it, also in this process, without waiting. These are locks of the open
 * file description (F_OFD_SETLK): they belong to the descriptor, not to the process, so that no close of another
 * descriptor ends them. The file must be open for writing.
 */
export const lockFile: FileLocking = (fd) => {
  try {
    const { tryLock, unlock } = native();
    // All of it first: whoever has locked any part of it, as QEMU does with what it runs on, uses it.
    if (!tryLock(fd, 0, 0)) return { outcome: "held" };
    // Elsewhere a lock is of the whole file, and a part of it cannot be given back.
    if (process.platform === "linux") {
      unlock(fd, 0, LOCKED_BYTE);
      unlock(fd, LOCKED_BYTE + 1, 0);
    }
    return { outcome: "locked" };
  } catch (error) {
    // What network file systems may say instead of EAGAIN.
    if ((error as NodeJS.ErrnoException).code === "EACCES") return { outcome: "held" };
    return { outcome: "impossible", reason: messageOf(error) };
  }
};

interface NativeLocks {
  /** Exclusive; a length of 0 reaches to the end, wherever that comes to be. False when somebody else has a lock there. */
  tryLock(fd: number, offset: number, length: number): boolean;
  unlock(fd: number, offset: number, length: number): void;
}

const require = createRequire(import.meta.url);

// When it is needed, not when this is imported: a machine that the addon was not built for is to get a reason to read.
const native = (): NativeLocks => require("fs-native-extensions") as NativeLocks;
