import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { endsWithParent } from "@diskmesh/testkit";

const MARK = "DISKMESH_SOAK_ISOLATED";
const UNSHARE = ["--net", "--mount", "--propagation", "private", "--"];

/** Whether this process has a network and mounts of its own, which end with it. */
export const isIsolated = process.env[MARK] === "yes";

/** Why this machine gives no process a network and mounts of its own; undefined when it does. */
export function isolationProblem(): string | undefined {
  if (process.getuid?.() !== 0) return "only root can make network namespaces and mounts";
  const tried = spawnSync("unshare", [...UNSHARE, "ip", "link", "set", "lo", "up"], { encoding: "utf8" });
  if (tried.error !== undefined) return `unshare cannot be run: ${tried.error.message}`;
  if (tried.status === 0) return undefined;
  return `unshare and ip gave no network namespace: ${tried.stderr.trim()}`;
}

/** For faults that a process without a network and mounts of its own cannot do. */
export function sharedBecause(): string | undefined {
  if (isIsolated) return undefined;
  return isolationProblem() ?? "with its database elsewhere the soak shares the machine's network and mounts";
}

/** Runs this program again with other arguments in a network and mounts of its own; resolves with its exit code. */
export async function runIsolated(args: readonly string[]): Promise<number> {
  // Not what was called: that may be the launcher of several programs, which would ask for which.
  const main = fileURLToPath(new URL("./main.js", import.meta.url));
  const [command = "", ...commandArgs] = [...endsWithParent(), "unshare", ...UNSHARE, process.execPath, main, ...args];
  const child = spawn(command, commandArgs, {
    stdio: "inherit",
    env: { ...process.env, [MARK]: "yes" },
  });
  const stop = (signal: NodeJS.Signals) => void child.kill(signal);
  // The terminal sends SIGINT to both; this one must outlive the other.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, stop);
  const [code] = await once(child, "exit");
  return (code as number | null) ?? 1;
}
