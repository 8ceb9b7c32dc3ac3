/**
 * A separate process that ends the mesh's processes when its launcher is gone: the kernel closes the launcher's end of
 * standard input however it ends. Each input line is `+PID` for a started process, or `-PID` for an ended one.
 */
import { createInterface } from "node:readline";

const GRACE_MS = 5000;
const pids = new Set<number>();

// Ctrl-C in a terminal reaches this process too, but only the end of the launcher counts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => {});

createInterface({ input: process.stdin })
  .on("line", (line) => {
    const pid = Number(line.slice(1));
    if (line.startsWith("+")) pids.add(pid);
    else pids.delete(pid);
  })
  .on("close", () => {
    signalAll("SIGTERM");
    setTimeout(() => signalAll("SIGKILL"), pids.size > 0 ? GRACE_MS : 0);
  });

function signalAll(signal: NodeJS.Signals): void {
  for (const pid of pids) {
    try {
      process.kill(pid, signal);
    } catch {
      pids.delete(pid);
    }
  }
}
