import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { isIsolated, isolatedCommand, isolationProblem } from "../namespaces/isolation.js";

/** Returns why faults that need their own network and mount namespaces cannot run; undefined when they can. */
export function sharedBecause(): string | undefined {
  if (isIsolated) return undefined;
  return isolationProblem() ?? "with its database elsewhere the soak shares the machine's network and mounts";
}

/**
 * Runs this program again with other arguments in its own network and mount namespaces. Resolves with its exit code.
 */
export async function runIsolated(programArgs: readonly string[]): Promise<number> {
  // Its own main file, because process.argv[1] may be the launcher of several programs.
  const main = fileURLToPath(new URL("./main.js", import.meta.url));
  const { command, args, env } = isolatedCommand(main, programArgs);
  const child = spawn(command, args, { stdio: "inherit", env });
  const stop = (signal: NodeJS.Signals) => void child.kill(signal);
  // The terminal sends SIGINT to both processes; this one must outlive the other.
  for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"] as const) process.on(signal, stop);
  const [code] = await once(child, "exit");
  return (code as number | null) ?? 1;
}
