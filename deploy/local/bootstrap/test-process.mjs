import { fork } from "node:child_process";
import { on } from "node:events";
import { setImmediate as nextTurn } from "node:timers/promises";
import { endWithThis, signalGroup, unlessStopping } from "./process-group.mjs";

/** Time in ms for tests to end what they have started and to remove their folders. A process in a busy loop ignores it. */
const END_GRACE_MS = 10_000;

/** Running test processes. Each has run the test `test` of `file` since `testBeganMs`. */
export const running = new Set();

/**
 * Runs test files from the queue one after another in one process, and yields each result. Stops after the first file
 * that fails, because its leftovers must not affect the next file. `titles` has the tests to run of a file that does not
 * run whole.
 */
export async function* runInProcess(queue, { options, timeoutMs, env, execPath = process.execPath, titles }) {
  const child = fork(new URL("./test-worker.mjs", import.meta.url), {
    // Makes unhandled rejections fail the process, because Mocha ignores them.
    execArgv: ["--unhandled-rejections=strict", "--enable-source-maps"],
    env,
    execPath,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
    // Starts a process group, so that the process's children are killed with it.
    detached: true,
  });
  running.add(child);
  const forget = endWithThis(child, END_GRACE_MS);
  const timer = setTimeout(() => child.kill("SIGKILL"), timeoutMs);
  child.once("exit", () => {
    clearTimeout(timer);
    running.delete(child);
    void unlessStopping().then(() => {
      signalGroup(child, "SIGKILL");
      forget();
    });
  });
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => {
      child.output += text;
      process.stdout.write(text.replace(/^(?=.)/gm, `${child.file}: `));
    });
  let result;
  const begin = () => {
    result = undefined;
    const nowMs = performance.now();
    Object.assign(child, {
      file: queue.shift(),
      fileBeganMs: nowMs,
      output: "",
      test: "loading it",
      testBeganMs: nowMs,
    });
    timer.refresh();
    // Sending fails only when the process has ended, which the exit event reports.
    child.send({ file: child.file, options, titles: titles?.get(child.file) }, () => {});
  };
  begin();
  for await (const [message] of on(child, "message", { close: ["close"] })) {
    if (message.begun !== undefined) {
      Object.assign(child, { test: message.begun, testBeganMs: performance.now() });
      continue;
    }
    result = { ...message, durationMs: performance.now() - child.fileBeganMs };
    // Waits for the next turn, so that earlier output is read first.
    await nextTurn();
    yield result;
    if (result.failures.length > 0 || queue.length === 0) break;
    begin();
  }
  if (child.connected) child.disconnect();
  await unlessStopping();
  if (result) return;
  const early = `ended (${child.signalCode ?? `exit code ${child.exitCode}`}) before all its tests had run`;
  const title = `${child.killed ? `took longer than ${timeoutMs / 1000} s` : early}, at: ${child.test}`;
  console.log(`${child.file}: ${title}`);
  const durationMs = performance.now() - child.fileBeganMs;
  yield { file: child.file, durationMs, passed: 0, skipped: [], failures: [{ title, error: child.output }] };
}
