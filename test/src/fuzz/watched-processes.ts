import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually, type MemoryUse, memoryUseFile, type ServiceProcess } from "@diskmesh/testkit";

const PAGE_BYTES = 4_096;
const SAMPLES = 5;
const SAMPLE_EVERY_MS = 400;

export interface Usage {
  readonly residentBytes: number;
  readonly descriptors: number;
  /** Bytes of reachable JavaScript objects; undefined when the process does not report them (`reportsMemoryUseIn`). */
  readonly heapBytes?: number;
  /** Handles and requests in progress. */
  readonly resources?: number;
}

/**
 * Returns the time in ms for which a process's main thread was runnable while others ran, from Linux's counters; 0 on
 * other systems.
 */
export function waitedForTurnsMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** Returns the memory, threads and files of a process; undefined when the process has ended. */
export function usageOf(pid: number): Usage | undefined {
  try {
    const pages = Number(readFileSync(`/proc/${pid}/statm`, "utf8").split(" ")[1]);
    return { residentBytes: pages * PAGE_BYTES, descriptors: readdirSync(`/proc/${pid}/fd`).length };
  } catch {
    return undefined;
  }
}

/**
 * Returns the memory of processes: the minimum of a few samples, each after a garbage collection (COLLECTS_ON_SIGUSR2).
 * Without collections the samples would depend on the machine's load, because V8 collects late when idle. Waits for the
 * reports of processes that write them to a folder (`reportsMemoryUseIn`).
 */
export async function usages(
  processes: ReadonlyMap<string, Pick<ServiceProcess, "pid" | "signal">>,
  heldFolder?: string,
): Promise<Map<string, Usage>> {
  const heldBy = (pid: number) => (heldFolder === undefined ? undefined : heldOf(heldFolder, pid));
  const least = new Map<string, Usage>();
  const before = new Map([...processes].map(([name, { pid }]) => [name, heldBy(pid)?.times ?? 0]));
  for (const process of processes.values()) process.signal("SIGUSR2");
  if (heldFolder !== undefined)
    for (const [name, process] of processes)
      await eventually(() => {
        const times = heldBy(process.pid)?.times ?? 0;
        return usageOf(process.pid) === undefined || times > (before.get(name) ?? 0);
      });
  for (let sample = 0; sample < SAMPLES; sample++) {
    await sleep(SAMPLE_EVERY_MS);
    for (const [name, process] of processes) {
      const now = usageOf(process.pid);
      if (now === undefined) continue;
      const known = least.get(name) ?? now;
      const { heapBytes, resources } = heldBy(process.pid) ?? {};
      least.set(name, {
        residentBytes: Math.min(known.residentBytes, now.residentBytes),
        descriptors: Math.min(known.descriptors, now.descriptors),
        ...(heapBytes !== undefined && resources !== undefined && { heapBytes, resources }),
      });
    }
  }
  return least;
}

function heldOf(folder: string, pid: number): MemoryUse | undefined {
  try {
    return JSON.parse(readFileSync(memoryUseFile(folder, pid), "utf8")) as MemoryUse;
  } catch {
    return undefined;
  }
}

/** Returns the last output of a process that ended unexpectedly. */
export function lastWords(process: ServiceProcess): string {
  return process.logs.trimEnd().split("\n").slice(-6).join("\n");
}
