import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface RunningProcess {
  readonly pid: number;
  /** Its arguments, with spaces between. */
  readonly command: string;
}

/** Processes that name a folder in their arguments or their environment: those that belong to what runs there. */
export function processesOf(folder: string): RunningProcess[] {
  const found: RunningProcess[] = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const [command, environment] = [partsOf(pid, "cmdline"), partsOf(pid, "environ")];
    // One that has ended, and whose parent has not looked yet, has neither.
    if (Number(pid) !== process.pid && `${command}\n${environment}`.includes(folder))
      found.push({ pid: Number(pid), command });
  }
  return found;
}

function partsOf(pid: string, file: "cmdline" | "environ"): string {
  try {
    return readFileSync(join("/proc", pid, file), "utf8").replaceAll("\0", " ");
  } catch {
    // It has ended meanwhile, or is somebody else's.
    return "";
  }
}
