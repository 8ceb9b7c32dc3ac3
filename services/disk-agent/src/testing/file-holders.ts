import { readdirSync, readFileSync, readlinkSync } from "node:fs";

/** Returns the processes that have the file open. */
export function holdersOf(path: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => countDescriptors(pid, path) > 0);
}

/** Returns how many descriptors of a process are open on a file. */
export function countDescriptors(pid: number, path: string): number {
  return entriesOf(`/proc/${pid}/fd`).filter((fd) => linkOf(fd) === path).length;
}

/** Returns whether a process that has the file open is in a system call that a signal does not end. */
export function hasHungHolder(path: string): boolean {
  return holdersOf(path).some((pid) => entriesOf(`/proc/${pid}/task`).some((task) => stateOf(task) === "D"));
}

function stateOf(task: string): string {
  try {
    const stat = readFileSync(`${task}/stat`, "latin1");
    return stat.slice(stat.lastIndexOf(")") + 2)[0] ?? "";
  } catch {
    return "";
  }
}

/** Empty for a folder of a process that has ended. */
function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder).map((name) => `${folder}/${name}`);
  } catch {
    return [];
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}
