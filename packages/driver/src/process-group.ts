import { readdirSync, readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

// Handles a driver's process and its children. Both are found under /proc on Linux; elsewhere only the driver itself is
// killed.

/** Environment variable of a driver's process, inherited by its children. Its value is unique. */
export const MARK = "DISKMESH_DRIVER_PROCESS";

/** Memory and processor time used by a driver's process and its children. */
export interface GroupUse {
  readonly memoryBytes: number;
  readonly processorMs: number;
  /** Processor time of the driver's process without its children. */
  readonly ownProcessorMs: number;
}

// Constant on every Linux supported by Node, regardless of kernel settings.
const TICK_MS = 10;
const PAGE_BYTES = 4_096;
/** Maximum number of child processes that are measured. */
const MAX_COUNTED = 1_000;
/**
 * Maximum number of walks over all processes. The walk is repeated, because a process may have started another process
 * while the others were killed.
 */
const MAX_WALKS = 10;

/**
 * Returns undefined where the kernel does not report the values. Without `members`, the processes of the control group,
 * processes whose parent has ended are not counted.
 */
export async function groupUse(pid: number, members?: readonly number[]): Promise<GroupUse | undefined> {
  const own = await useOf(pid);
  if (own === undefined) return undefined;
  let { memoryBytes, processorMs } = own;
  const found = members?.filter((member) => member !== pid) ?? (await childrenOf(pid));
  for (const each of found) {
    if (found.length > MAX_COUNTED) break;
    const use = await useOf(each);
    memoryBytes += use?.memoryBytes ?? 0;
    processorMs += use?.processorMs ?? 0;
    if (members === undefined) found.push(...(await childrenOf(each)));
  }
  return { memoryBytes, processorMs, ownProcessorMs: own.ownProcessorMs };
}

async function useOf(pid: number): Promise<GroupUse | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    // The program name in parentheses may contain anything. The third and later fields follow it.
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

/** Reads every thread's list, because each thread has its own children. */
async function childrenOf(pid: number): Promise<number[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const lists = threads.map((thread) => readFile(`/proc/${pid}/task/${thread}/children`, "latin1").catch(() => ""));
  return (await Promise.all(lists)).flatMap((list) => list.split(" ").filter(Boolean).map(Number));
}

/**
 * Kills a driver's process group and every process that inherited its mark, also in other groups and sessions. A
 * process that left the group with a cleared environment escapes, unless the driver has a control group (see
 * ControlGroup).
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
  const pids = namesIn("/proc").map(Number).filter(Number.isInteger);
  return pids.filter((pid) => {
    try {
      return readFileSync(`/proc/${pid}/environ`, "latin1").includes(`${MARK}=${mark}\0`);
    } catch {
      return false;
    }
  });
}

/** Returns the names in a folder; none when it cannot be read. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has already ended.
  }
}
