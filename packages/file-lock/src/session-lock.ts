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

/** Number of processes that can hold the locks of one device at the same time, and the bytes that a device has. */
const HOLDERS_MAX = 8;

/**
 * Marks a device as in use by the process that inherits `fd`. The lock belongs to the open file description, so that
 * it ends exactly when the last process that has the descriptor has ended, and no system call of it is left. Each
 * process has a byte of its own, so that one byte never has two holders. Returns false when all bytes of the device are
 * held. Works for regular files and block devices, open for writing.
 */
export function lockSession(fd: number, deviceOffsetBytes: number): boolean {
  return bytesOf(deviceOffsetBytes).some((at) => native().tryLock(fd, at, 1));
}

/**
 * Returns whether a process that is not among `except` holds a session lock of a device. `fd` must not hold one itself.
 */
export function isSessionLocked(
  fd: number,
  file: StatOfFile,
  deviceOffsetBytes: number,
  except: Iterable<number> = [],
): boolean {
  const locked = bytesOf(deviceOffsetBytes).filter((at) => isLocked(fd, at, 1));
  if (locked.length === 0) return false;
  const excepted = Array.from(except, locksOf).flat();
  return locked.some((at) => !excepted.includes(lockAt(file, at)));
}

/** Returns whether another open file description has a lock in this range, which this one must not have. */
export function isLocked(fd: number, offset: number, length: number): boolean {
  const { tryLock, unlock } = native();
  if (!tryLock(fd, offset, length)) return true;
  unlock(fd, offset, length);
  return false;
}

/**
 * Returns the ids of the processes that hold session locks of a device, as far as they can be seen from here. Searches
 * the descriptors of all processes, because the kernel names no owner of these locks.
 */
export async function sessionLockHolders(file: StatOfFile, deviceOffsetBytes: number): Promise<number[]> {
  const wanted = bytesOf(deviceOffsetBytes).map((at) => lockAt(file, at));
  const pids: number[] = [];
  for (const pid of namesIn("/proc")) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    if (locksOf(Number(pid)).some((lock) => wanted.includes(lock))) pids.push(Number(pid));
    await nextTurn();
  }
  return pids;
}

/** Returns the file and range of each lock of a process, as the kernel writes them. */
function locksOf(pid: number): string[] {
  const descriptors = namesIn(`/proc/${pid}/fdinfo`).map((name) => textOf(`/proc/${pid}/fdinfo/${name}`));
  const lines = descriptors.flatMap((text) => text.split("\n")).filter((line) => line.startsWith("lock:"));
  return lines.map((line) => line.trim().split(/\s+/).slice(-3).join(" "));
}

function lockAt(file: StatOfFile, at: number): string {
  return `${deviceNumber(file.dev, 16)}:${file.ino} ${at} ${at}`;
}

function bytesOf(deviceOffsetBytes: number): number[] {
  const first = SESSION_BYTES_START + HOLDERS_MAX * Math.floor(deviceOffsetBytes / SECTOR_BYTES);
  return Array.from({ length: HOLDERS_MAX }, (_, index) => first + index);
}
