import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const FIRST_POLL_MS = 1;
const LONGEST_POLL_MS = 20;

/** Kills every process of a group and returns when none of them runs any more. */
export async function endGroup(groupId: number): Promise<void> {
  for (let pollMs = FIRST_POLL_MS; killGroup(groupId) === "sent"; pollMs = Math.min(pollMs * 2, LONGEST_POLL_MS)) {
    // Nobody may ever collect the exit of an orphan, and what waits for that is dead.
    if (!(await hasLiveMember(groupId))) return;
    await sleep(pollMs);
  }
}

/** Says whether there was anybody to kill. */
function killGroup(groupId: number): "sent" | "gone" {
  // 0 and 1 mean other things to kill(2) than a group of that id.
  if (!Number.isSafeInteger(groupId) || groupId < 2) throw new Error(`${groupId} is no process group`);
  try {
    process.kill(-groupId, "SIGKILL");
    return "sent";
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return "gone";
    throw error;
  }
}

/** The kernel's state of a process. */
export interface ProcessState {
  readonly pid: number;
  readonly state: string;
  readonly groupId: number;
}

/** All processes that the system shows; undefined where it has no /proc. */
export async function listProcesses(): Promise<ProcessState[] | undefined> {
  let names: string[];
  try {
    names = await readdir("/proc");
  } catch {
    return undefined;
  }
  const pids = names.filter((name) => /^\d+$/.test(name));
  const states = await Promise.all(pids.map((pid) => processState(Number(pid))));
  return states.filter((state) => state !== undefined);
}

async function processState(pid: number): Promise<ProcessState | undefined> {
  try {
    const stat = await readFile(`/proc/${pid}/stat`, "latin1");
    // The name before it may hold anything, blanks and parentheses too.
    const [state = "", , groupId] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { pid, state, groupId: Number(groupId) };
  } catch {
    // It has ended meanwhile.
    return undefined;
  }
}

async function hasLiveMember(groupId: number): Promise<boolean> {
  const processes = await listProcesses();
  if (processes === undefined) return true;
  return processes.some((one) => one.groupId === groupId && one.state !== "Z" && one.state !== "X");
}
