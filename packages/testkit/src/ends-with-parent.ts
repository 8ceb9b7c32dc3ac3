import { spawnSync } from "node:child_process";

const LAUNCHER = ["setpriv", "--pdeathsig", "KILL", "--"];
let launcher: readonly string[] | undefined;

/**
 * Returns a command prefix that execs the rest of the command line. The kernel kills that process when this process
 * ends, even by SIGKILL. Empty without `setpriv` of util-linux; then the process outlives a parent killed by SIGKILL.
 */
export function endsWithParent(): readonly string[] {
  launcher ??= spawnSync(LAUNCHER[0] ?? "", [...LAUNCHER.slice(1), "true"]).status === 0 ? LAUNCHER : [];
  return launcher;
}
