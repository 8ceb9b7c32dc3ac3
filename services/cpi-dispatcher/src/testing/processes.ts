import { readdirSync, readFileSync } from "node:fs";
import { listProcesses } from "../executables/process-group.js";

/** Empty when there is no such process, or nothing of it but its exit status. */
export function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1");
  } catch {
    return "";
  }
}

/** Live processes that were started with that run folder. */
export async function processesOf(runFolder: string): Promise<number[]> {
  const pids = ((await listProcesses()) ?? []).filter(({ state }) => state !== "Z").map(({ pid }) => pid);
  return pids.filter((pid) => environmentOf(pid).includes(runFolder));
}

/** How many descriptors this process has open. */
export const openDescriptors = (): number => readdirSync("/proc/self/fd").length;
