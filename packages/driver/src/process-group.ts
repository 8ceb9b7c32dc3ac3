import { readdirSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

// A driver's process, and what it started. Linux tells of both under /proc; elsewhere a driver is ended by itself alone.

/** Environment variable that a driver's process has, and whatever it starts inherits. Its value is unique. */
export const MARK = "DISKMESH_DRIVER_PROCESS";

/** The memory and processor time that a driver's process and all below it have used so far. */
export interface GroupUse {
  readonly memoryBytes: number;
  readonly processorMs: number;
  /** Without what it started. */
  readonly ownProcessorMs: number;
}

// Both are the same on every Linux that Node runs on, whatever the kernel counts in.
const TICK_MS = 10;
const PAGE_BYTES = 4_096;
/** Processes of one driver that are counted. */
const MAX_COUNTED = 1_000;
/** A process may have started another one while the others were ended. */
const MAX_WALKS = 10;

/** Returns undefined where the kernel does not tell. Counts no process whose parent has ended. */
export async function groupUse(pid: number): Promise<GroupUse | undefined> {
  const own = await useOf(pid);
  if (own === undefined) return undefined;
  let { memoryBytes, processorMs } = own;
  const found = await childrenOf(pid);
  for (const each of found) {
    if (found.length > MAX_COUNTED) break;
    const use = await useOf(each);
    memoryBytes += use?.memoryBytes ?? 0;
    processorMs += use?.processorMs ?? 0;
    found.push(...(await childrenOf(each)));
  }
  return { memoryBytes, processorMs, ownProcessorMs: own.ownProcessorMs };
}

async function useOf(pid: number): Promise<GroupUse | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    // The name of the program, in brackets, may hold anything. After it come the fields from the third on.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [user = 0, system = 0, endedUser = 0, endedSystem = 0] = fields.slice(11, 15).map(Number);
    return {
      memoryBytes: Number(fields[21]) * PAGE_BYTES,
      processorMs: (user + system + endedUser + endedSystem) * TICK_MS,
      ownProcessorMs: (user + system) * TICK_MS,
    };
  } catch {
    return undefined;
  }
}

/** Every thread has children of its own. */
async function childrenOf(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, "latin1").catch(() => ""));
  return (await Promise.all(lists)).flatMap((list) => list.split(" ").filter(Boolean).map(Number));
}

/**
 * Ends the process group of a driver, and whatever else inherited its mark, in groups and sessions of their own too. A
 * process that was started with a cleared environment, and has left the group, escapes.
 */
export function killGroup(pid: number, mark: string): void {
  for (let walks = 0; walks < MAX_WALKS; walks++) {
    const found = markedProcesses(mark).filter((each) => each !== process.pid);
    for (const each of found) kill(each);
    if (found.length === 0) break;
  }
  kill(-pid);
}

function markedProcesses(mark: string): number[] {
  return numbersIn("/proc").filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`${MARK}=${mark}\0`);
    } catch {
      return false;
    }
  });
}

function numbersIn(folder: string): number[] {
  try {
    return readdirSync(folder).map(Number).filter(Number.isInteger);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // It has ended.
  }
}
