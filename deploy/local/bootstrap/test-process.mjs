import { fork } from "node:child_process";
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
  return child;
}

/** How the tests of a file went, and what they printed; `onFailure` and `onOutput` hear of each at once. */
export async function runTestFile(child, file, { timeoutMs, onFailure, onOutput }) {
  const result = { passed: 0, skipped: [], failures: [], output: "", cpuSeconds: 0 };
  const fail = (failure) => {
    result.failures.push(failure);
    onFailure(failure);
  };
  for (const stream of [child.stdout, child.stderr])
    stream.removeAllListeners("data").on("data", (text) => {
      result.output += text;
      onOutput(text);
    });
  const timer = setTimeout(() => {
    fail({ title: `took longer than ${timeoutMs / 1000} s`, error: result.output });
    signalGroup(child, "SIGKILL");
  }, timeoutMs);
  const counted = await new Promise((resolve) => {
    child.removeAllListeners("message").on("message", ({ failure, counted }) => {
      if (failure) fail(failure);
      // What was printed before arrives before the next turn.
      else setImmediate(resolve, counted);
    });
    child.removeAllListeners("close").once("close", () => resolve(undefined));
    // That it has ended meanwhile is told by its end.
    child.send({ file }, () => {});
  });
  clearTimeout(timer);
  const why = child.signalCode ?? `exit code ${child.exitCode}`;
  if (!counted && result.failures.length === 0)
    fail({ title: `ended (${why}) before all its tests had run`, error: result.output });
  return { ...result, ...counted };
}

function signalGroup({ pid }, signal) {
  try {
    process.kill(-pid, signal);
  } catch {
    // It left nothing running.
  }
}
