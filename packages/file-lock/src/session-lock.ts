import { setImmediate as nextTurn } from "node:timers/promises";
import { deviceNumber } from "./device-number.js";
import type { StatOfFile } from "./lock-holder.js";
import { native } from "./native.js";
import { namesIn, textOf } from "./proc-files.js";

/**
 * Offset from which the bytes of session locks lie: beyond the end of every file and beyond the byte that `lockFile`
 * keeps.
 */
export const SESSION_BYTES_START = 2 ** 51;

const SECTOR_BYTES = 512;

/**
 * Marks a device as in use by the process that inherits `fd`. The lock belongs to the open file description, so that
 * it ends exactly when the last process that has the descriptor has ended, and no system call of it is left. A device
 * of a file has one byte. Returns false when another process holds it. Works for regular files and block devices, open
 * for writing.
 */
export function lockSession(fd: number, deviceOffsetBytes: number): boolean {
  return native().tryLock(fd, byteOf(deviceOffsetBytes), 1);
}

/**
 * Releases the lock of a process that keeps the descriptor but does no more I/O on it. `fd` must be of the open file
 * description that the process inherited.
 */
export function unlockSession(fd: number, deviceOffsetBytes: number): void {
  native().unlock(fd, byteOf(deviceOffsetBytes), 1);
}

/** Returns whether a process holds the session lock of a device. `fd` must not hold it itself. */
export function isSessionLocked(fd: number, deviceOffsetBytes: number): boolean {
  return isLocked(fd, byteOf(deviceOffsetBytes), 1);
}

/** Returns whether another open file description has a lock in this range, which this one must not have. */
export function isLocked(fd: number, offset: number, length: number): boolean {
  const { tryLock, unlock } = native();
  if (!tryLock(fd, offset, length)) return true;
  unlock(fd, offset, length);
  return false;
}

/**
 * Returns the ids of the processes that hold the session lock of a device, as far as they can be seen from here.
 * Searches the descriptors of all processes, because the kernel names no owner of these locks.
 */
export async function sessionLockHolders(file: StatOfFile, deviceOffsetBytes: number): Promise<number[]> {
  const at = byteOf(deviceOffsetBytes);
  const wanted = `${deviceNumber(file.dev, 16)}:${file.ino} ${at} ${at}`;
  const pids: number[] = [];
  for (const pid of namesIn("/proc")) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    const holds = namesIn(`/proc/${pid}/fdinfo`).some((fd) =>
      textOf(`/proc/${pid}/fdinfo/${fd}`)
        .split("\n")
        .some((line) => line.startsWith("lock:") && line.trim().replace(/\s+/g, " ").endsWith(wanted)),
    );
    if (holds) pids.push(Number(pid));
    await nextTurn();
  }
  return pids;
}

function byteOf(deviceOffsetBytes: number): number {
  return SESSION_BYTES_START + Math.floor(deviceOffsetBytes / SECTOR_BYTES);
}
