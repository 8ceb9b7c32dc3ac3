import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

export interface RunningProcess {
  readonly pid: number;
  /** Arguments of the process, separated by spaces. */
  readonly command: string;
}

/** Returns processes whose arguments or environment contain a folder, because they belong to the programs there. */
export function processesOf(folder: string): RunningProcess[] {
  const found: RunningProcess[] = [];
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    const [command, environment] = [partsOf(pid, "cmdline"), partsOf(pid, "environ")];
    // A zombie has neither arguments nor an environment.
    if (Number(pid) !== process.pid && `${command}\n${environment}`.includes(folder))
      found.push({ pid: Number(pid), command });
  }
  return found;
}

function partsOf(pid: string, file: "cmdline" | "environ"): string {
  try {
    return readFileSync(join("/proc", pid, file), "utf8").replaceAll("\0", " ");
  } catch {
    // The file cannot be read, because the process has ended or belongs to another user.
    return "";
  }
}
