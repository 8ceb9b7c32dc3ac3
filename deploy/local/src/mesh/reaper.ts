/**
 * Process that ends the mesh's processes when the launcher has ended in any way, even by SIGKILL: the kernel then
 * closes the launcher's end of standard input. Each input line is `+PID` for a started process, `-PID` for an ended one,
 * or `!` and a command, as a JSON list, to run when all processes have ended.
 */
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const GRACE_MS = 5000;
const pids = new Set<number>();
const lastCommands = new Set<string>();

// Ignores signals, because Ctrl-C in a terminal reaches this process, too. Only the end of the launcher ends it.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const pid = Number(line.slice(1));
    if (line.startsWith("!")) lastCommands.add(line.slice(1));
    else if (line.startsWith("+")) pids.add(pid);
    else pids.delete(pid);
  })
  .on("close", () => {
    signalAll("SIGTERM");
    setTimeout(
      () => {
        signalAll("SIGKILL");
        for (const command of lastCommands) run(command);
      },
      pids.size > 0 ? GRACE_MS : 0,
    );
  });

function run(command: string): void {
  const [file = "", ...args] = JSON.parse(command) as string[];
  spawn(file, args, { stdio: "ignore" }).on("error", () => {});
}

function signalAll(signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      pids.delete(pid);
    }
  }
}
