import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { isIsolated, isolatedCommand, isolationProblem } from "../namespaces/isolation.js";

/** Returns why faults that need a network and mounts of their own cannot run, or undefined. */
export function sharedBecause(): string | undefined {
  if (isIsolated) return undefined;
  return isolationProblem() ?? "with its database elsewhere the soak shares the machine's network and mounts";
}

/** Runs this program again with other arguments in a network and mounts of its own; resolves with its exit code. */
export async function runIsolated(programArgs: readonly string[]): Promise<number> {
  // Not what was called: that may be the launcher of several programs, which would ask for which.
  const main = fileURLToPath(new URL("./main.js", import.meta.url));
  const { command, args, env } = isolatedCommand(main, programArgs);
  const child = spawn(command, args, { stdio: "inherit", env });
  const stop = (signal: NodeJS.Signals) => void child.kill(signal);
  // The terminal sends SIGINT to both; this one must outlive the other.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, stop);
  const [code] = await once(child, "exit");
  return (code as number | null) ?? 1;
}
