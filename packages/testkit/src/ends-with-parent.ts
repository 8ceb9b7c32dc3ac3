import { spawnSync } from "node:child_process";

const LAUNCHER = ["setpriv", "--pdeathsig", "KILL", "--"];
let launcher: readonly string[] | undefined;

/**
 * Runs a command and becomes it; the system kills that when this process ends, even by SIGKILL. Empty where there is no
 * setpriv of util-linux: there, what was started outlives a parent that was killed so.
 */
export function endsWithParent(): readonly string[] {
  launcher ??= spawnSync(LAUNCHER[0] ?? "", [...LAUNCHER.slice(1), "true"]).status === 0 ? LAUNCHER : [];
  return launcher;
}
