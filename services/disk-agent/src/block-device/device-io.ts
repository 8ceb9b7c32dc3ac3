import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { DeviceIo } from "../nbd/io-counters.js";

/** The kernel counts in sectors of this size, whatever the device's block size is. */
const SECTOR_BYTES = 512;

/** Returns the kernel's counters of a block device; undefined when the device does not exist. */
export function readDeviceIo(device: string): DeviceIo | undefined {
  try {
    return parseStat(readFileSync(`/sys/block/${basename(device)}/stat`, "latin1"));
  } catch {
    return undefined;
  }
}

/** Parses a `stat` file of sysfs. Kernels before 5.5 do not count flushes. */
export function parseStat(text: string): DeviceIo {
  const numbers = text.trim().split(/\s+/).map(Number);
  const at = (index: number) => numbers[index] ?? 0;
  const counted = (first: number) => ({
    operations: at(first),
    sizeBytes: SECTOR_BYTES * at(first + 2),
    timeMs: at(first + 3),
  });
  const flush = { operations: at(15), sizeBytes: 0, timeMs: at(16) };
  return { read: counted(0), write: counted(4), discard: counted(11), flush };
}
