import { readFileSync } from "node:fs";
import { basename } from "node:path";
import type { DeviceIo } from "../nbd/io-counters.js";

/** The kernel counts in sectors of this size, whatever the device's block size is. */
const SECTOR_BYTES = 512;

/** Returns the kernel's counters of a block device; undefined when the device does not exist. */
export function readDeviceIo(device: string): DeviceIo | undefined {
  const text = readStat(device);
  return text === undefined ? undefined : parseStat(text);
}

function readStat(device: string): string | undefined {
  try {
    return readFileSync(`/sys/block/${basename(device)}/stat`, "latin1");
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

/** Finds block devices that do not answer: requests are in flight at two looks in a row, and none has ended between. */
export class StalledRequests {
  #ended: number | undefined;
  #problem: string | undefined;

  get problem(): string | undefined {
    return this.#problem;
  }

  look(device: string | undefined): void {
    const { inFlight, ended } = (device === undefined ? undefined : readRequests(device)) ?? { inFlight: 0, ended: 0 };
    const isStalled = inFlight > 0 && ended === this.#ended;
    this.#problem = isStalled ? `its block device ${device} does not answer ${inFlight} requests` : undefined;
    this.#ended = inFlight > 0 ? ended : undefined;
  }
}

function readRequests(device: string): { readonly inFlight: number; readonly ended: number } | undefined {
  const [text, io] = [readStat(device), readDeviceIo(device)];
  if (text === undefined || io === undefined) return undefined;
  const ended = Object.values(io).reduce((sum, { operations }) => sum + operations, 0);
  return { inFlight: Number(text.trim().split(/\s+/)[8] ?? 0), ended };
}
