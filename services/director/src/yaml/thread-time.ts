import { readFileSync, readlinkSync } from "node:fs";

/** The thread that asks, as the system names it for others; empty where it does not say. */
export function nameOfThisThread(): string {
  try {
    return readlinkSync("/proc/thread-self");
  } catch {
    return "";
  }
}

/** How long a thread of this process has had a processor; undefined where the system does not say. */
export function cpuMsOf(thread: string): number | undefined {
  try {
    const [ranNs] = readFileSync(`/proc/${thread}/schedstat`, "utf8").split(" ");
    return Number(ranNs) / 1e6;
  } catch {
    return undefined;
  }
}
