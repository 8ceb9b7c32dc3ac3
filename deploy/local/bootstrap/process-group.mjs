import { constants } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";

const POLL_MS = 20;
/** Time in ms for the kernel to end killed processes. A group may stay for good where nobody collects dead processes. */
const KILLED_WITHIN_MS = 5_000;

/** Detached children that run, with the time in ms that each group has to end by itself. */
const running = new Map();
let stopping = false;

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.on(signal, async () => {
    // Another listener stops in its own way, as the launcher of `npm start` does.
    if (process.listenerCount(signal) > 1) return;
    stopping = true;
    await Promise.all([...running].map(([child, graceMs]) => endGroup(child, graceMs)));
    process.exit(128 + constants.signals[signal]);
  });
process.once("exit", () => {
  for (const child of running.keys()) signalGroup(child, "SIGKILL");
});

/**
 * Ends the group of a detached child when this process is told to stop, before this process ends. Returns a function to
 * call once the child has ended.
 */
export function endWithThis(child, graceMs) {
  running.set(child, graceMs);
  return () => running.delete(child);
}

/** Resolves at once, and never when this process is about to end: what ends with it is no failure. */
export function unlessStopping() {
  return stopping ? new Promise(() => {}) : Promise.resolve();
}

/**
 * Ends all processes of a detached child's group: by SIGTERM, and what is left after `graceMs` by SIGKILL. Resolves when
 * they are gone.
 */
export async function endGroup(child, graceMs) {
  const killAtMs = performance.now() + graceMs;
  let signal = "SIGTERM";
  while (signalGroup(child, signal) && performance.now() < killAtMs + KILLED_WITHIN_MS) {
    await sleep(POLL_MS);
    signal = performance.now() < killAtMs ? 0 : "SIGKILL";
  }
}

/** Returns false when no process of the group is left. */
export function signalGroup({ pid }, signal) {
  try {
    return process.kill(-pid, signal);
  } catch {
    return false;
  }
}
