import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { DeviceIo } from "../base/io-counters.js";
import type { OpenSince } from "../model/io-queue.js";
import { SECTOR_BYTES } from "../model/mapped-devices.js";

/**
 * Returns the kernel's counters of a block device, by its path or by a number such as `254:3`; undefined when the device does
 * not exist.
 */
export function readDeviceIo(device: string): DeviceIo | undefined {
  const text = readStat(device);
  return text === undefined ? undefined : parseStat(text);
}

function readStat(device: string): string | undefined {
  const folder = device.startsWith("/") ? `/sys/block/${basename(device)}` : `/sys/dev/block/${device}`;
  try {
    return readFileSync(`${folder}/stat`, "latin1");
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

/**
 * Watches the requests that a block device has not answered. The kernel counts requests and tells no ages, so the oldest one
 * counts from the first look since which some were in flight and none has ended.
 */
export class KernelRequests {
  #ended: number | undefined;
  #sinceMs = 0;

  /** `device`: path or number of the block device; undefined for none. */
  look(device: string | undefined, nowMs: number): OpenSince {
    const { inFlight, ended } = (device === undefined ? undefined : readRequests(device)) ?? { inFlight: 0, ended: 0 };
    if (inFlight === 0) {
      this.#ended = undefined;
      return { count: 0, oldestSinceMs: undefined };
    }
    if (ended !== this.#ended) this.#sinceMs = nowMs;
    this.#ended = ended;
    return { count: inFlight, oldestSinceMs: this.#sinceMs };
  }
}

function readRequests(device: string): { readonly inFlight: number; readonly ended: number } | undefined {
  const text = readStat(device);
  if (text === undefined) return undefined;
  const ended = Object.values(parseStat(text)).reduce((sum, { operations }) => sum + operations, 0);
  return { inFlight: Number(text.trim().split(/\s+/)[8] ?? 0), ended };
}
