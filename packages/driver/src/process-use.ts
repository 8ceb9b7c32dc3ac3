import { readFile } from "node:fs/promises";

/** What a process has used so far, as the kernel says; undefined where it cannot be known. */
export interface ProcessUse {
  readonly memoryBytes: number;
  readonly processorMs: number;
}

// Both are the same on every Linux that Node runs on, whatever the kernel counts in.
const TICK_MS = 10;
const PAGE_BYTES = 4_096;

export async function processUse(pid: number): Promise<ProcessUse | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    // The name of the program, in brackets, may hold anything. After it come the fields from the third on.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [userTicks, systemTicks, pages] = [fields[11], fields[12], fields[21]].map(Number);
    if (userTicks === undefined || systemTicks === undefined || pages === undefined) return undefined;
    return { memoryBytes: pages * PAGE_BYTES, processorMs: (userTicks + systemTicks) * TICK_MS };
  } catch {
    return undefined;
  }
}
