import { workerData } from "node:worker_threads";
import { killGroup, MARK } from "./process-group.js";

const EVERY_MS = 500;

// Ends a driver's process, and all that it started, when its service has gone while the driver keeps the event loop.
setInterval(() => {
  if (process.ppid === workerData) return;
  killGroup(process.pid, process.env[MARK] ?? "");
  process.kill(process.pid, "SIGKILL");
}, EVERY_MS);
