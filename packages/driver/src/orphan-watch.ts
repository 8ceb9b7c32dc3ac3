import { workerData } from "node:worker_threads";
import { killGroup, MARK } from "./process-group.js";

const EVERY_MS = 500;

// Kills a driver's process and its children when the service has ended. Runs in a worker thread, so it works while the
// driver blocks its event loop.
setInterval(() => {
  if (process.ppid === workerData) return;
  killGroup(process.pid, process.env[MARK] ?? "");
  process.kill(process.pid, "SIGKILL");
}, EVERY_MS);
