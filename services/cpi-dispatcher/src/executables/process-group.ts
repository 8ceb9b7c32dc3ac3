import { readdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";

const FIRST_POLL_MS = 1;
const LONGEST_POLL_MS = 20;

/** Kills every process of a group and resolves when none of them runs. */
export async function endGroup(groupId: number): Promise<void> {
  for (let pollMs = FIRST_POLL_MS; killGroup(groupId) === "sent"; pollMs = Math.min(pollMs * 2, LONGEST_POLL_MS)) {
    // An orphan's exit may never be collected, so zombies do not count as running.
    if (!(await hasLiveMember(groupId))) return;
    await sleep(pollMs);
  }
}

/** Sends SIGKILL to the group; returns "gone" when the group does not exist. */
function killGroup(groupId: number): "sent" | "gone" {
  // kill(2) gives the ids 0 and 1 other meanings.
  if (!Number.isSafeInteger(groupId) || groupId < 2) throw new Error(`${groupId} is not a process group`);
  try {
    process.kill(-groupId, "SIGKILL");
    return "sent";
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ESRCH") return "gone";
    throw error;
  }
}

/** The kernel's view of a process. */
export interface ProcessState {
  readonly pid: number;
  readonly state: string;
  readonly groupId: number;
}

/** Returns all visible processes; undefined on systems without /proc. */
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
    // The name before the last parenthesis may contain spaces and parentheses.
    const [state = "", , groupId] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { pid, state, groupId: Number(groupId) };
  } catch {
    // The process has ended in the meantime.
    return undefined;
  }
}

async function hasLiveMember(groupId: number): Promise<boolean> {
  const processes = await listProcesses();
  if (processes === undefined) return true;
  return processes.some((one) => one.groupId === groupId && one.state !== "Z" && one.state !== "X");
}
