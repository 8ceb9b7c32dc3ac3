import { readdirSync, readFileSync } from "node:fs";
import { listProcesses } from "../executables/process-group.js";

/** Returns the process's environment; empty when the process is gone or a zombie. */
export function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1");
  } catch {
    return "";
  }
}

/** Returns the live processes that were started with the run folder. */
export async function processesOf(runFolder: string): Promise<number[]> {
  const pids = ((await listProcesses()) ?? []).filter(({ state }) => state !== "Z").map(({ pid }) => pid);
  return pids.filter((pid) => environmentOf(pid).includes(runFolder));
}

/** Returns the number of this process's open file descriptors. */
export const openDescriptors = (): number => readdirSync("/proc/self/fd").length;
