import { fork } from "node:child_process";
import { once } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const WORKER = fileURLToPath(new URL("./test-worker.mjs", import.meta.url));

const running = new Set();
process.once("exit", () => {
  // In a way that lets it remove its folders.
  for (const one of running) signalGroup(one, "SIGTERM");
});
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit(1));

/** A process that runs test files one after another, until it is disconnected. */
export function startTestProcess(root, mochaArgs) {
  const child = fork(WORKER, mochaArgs, {
    cwd: root,
    // Mocha alone swallows a rejection that nobody handles.
    execArgv: ["--unhandled-rejections=strict"],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    // A group of its own, so that what it started ends with it.
    detached: true,
  });
  running.add(child);
  child.once("exit", () => {
    running.delete(child);
    signalGroup(child, "SIGKILL");
  });
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding("utf8");
  return Object.assign(child, { closed: once(child, "close").then(() => undefined) });
}

/** How the tests of a file went; `onOutput` is given at once what is printed, by the tests and of those that failed. */
export async function runTestFile(child, file, { timeoutMs, onOutput }) {
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.removeAllListeners("data").on("data", (text) => {
      output += text;
      onOutput(text);
    });
  let late = "";
  const timer = setTimeout(() => {
    late = `took longer than ${timeoutMs / 1000} s`;
    signalGroup(child, "SIGKILL");
  }, timeoutMs);
  // That it has ended meanwhile is told by its end.
  child.send({ file }, () => {});
  const told = once(child, "message").then(([result]) => result);
  const result = await Promise.race([told, child.closed]);
  clearTimeout(timer);
  // What was printed before arrives before it.
  await nextTurn();
  if (result) return result;
  const why = child.signalCode ?? `exit code ${child.exitCode}`;
  const title = late || `ended (${why}) before all its tests had run`;
  return { passed: 0, skipped: [], failures: [{ title, error: output }], cpuSeconds: 0 };
}

function signalGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // It left nothing running.
  }
}
