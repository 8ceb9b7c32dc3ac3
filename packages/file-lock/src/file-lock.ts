import { messageOf } from "@diskmesh/domain";
import { native } from "./native.js";

/** Outcome of an attempt to lock an open file. */
type LockAttempt =
  /**
   * This process holds the lock until the last descriptor of this open file description is closed, also by process
   * exit.
   */
  | { readonly outcome: "locked" }
  /** Another open file description holds a lock on at least one byte of the file. */
  | { readonly outcome: "held" }
  /** The file system or the platform has no locks. */
  | { readonly outcome: "impossible"; readonly reason: string };

/** Locks a file; tests substitute other outcomes. */
export type FileLocking = (fd: number) => LockAttempt;

/**
 * Offset of the one byte that stays locked. It lies beyond the end of every file and outside bytes 100 to 263, which
 * QEMU locks, so that QEMU's tools can inspect a held file. It is below 2^53 - 1, so a JavaScript number holds it
 * exactly.
 */
const LOCKED_BYTE = 2 ** 50;

/**
 * Locks an open file against all other opens of it, also in this process, without waiting. Uses locks of the open file
 * description (F_OFD_SETLK), which belong to the descriptor and not to the process, so closing another descriptor does
 * not release them. The file must be open for writing.
 */
export const lockFile: FileLocking = (fd) => {
  try {
    const { tryLock, unlock } = native();
    // Other platforms lock whole files only and cannot release a part.
    // The whole file is locked first, because a lock on any part of it (QEMU locks single bytes) means that the file is
    // in use.
    if (!tryLock(fd, 0, 0)) return { outcome: "held" };
    if (process.platform !== "linux") return { outcome: "locked" };
    unlock(fd, 0, LOCKED_BYTE);
    unlock(fd, LOCKED_BYTE + 1, 0);
    return { outcome: "locked" };
  } catch (error) {
    // Network file systems may return EACCES instead of EAGAIN.
    if ((error as NodeJS.ErrnoException).code === "EACCES") return { outcome: "held" };
    return { outcome: "impossible", reason: messageOf(error) };
  }
};
