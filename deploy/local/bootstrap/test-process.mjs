import { fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

const WORKER = fileURLToPath(new URL("./test-worker.mjs", import.meta.url));
const KILL_AFTER_MS = 5000;

const alive = new Set();
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"])
  process.once(signal, async () => {
    await Promise.all([...alive].map((one) => one.kill()));
    process.exit(1);
  });

/** A process that runs test files one after another, until it is ended or a file ends it. */
export class TestProcess {
  #child;
  #closed;
  #output = "";

  constructor(root, mochaArgs) {
    this.#child = fork(WORKER, mochaArgs, {
      cwd: root,
      // Mocha alone swallows a rejection that nobody handles.
      execArgv: ["--unhandled-rejections=strict"],
      stdio: ["ignore", "pipe", "pipe", "ipc"],
      // A group of its own, so that what it started ends with it.
      detached: true,
    });
    this.#child.once("exit", () => {
      try {
        process.kill(-this.#child.pid, "SIGKILL");
      } catch {
        // It left nothing running.
      }
    });
    alive.add(this);
    this.#closed = once(this.#child, "close").then(() => alive.delete(this));
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream.setEncoding("utf8").on("data", (text) => {
        this.#output += text;
      });
  }

  get isAlive() {
    return this.#child.connected;
  }

  /** How the file's tests went, and what they printed; `onFailure` hears of a failure at once. */
  async run(file, { timeoutMs, onFailure }) {
    this.#output = "";
    const result = { passed: 0, skipped: [], failures: [] };
    const fail = (title, error) => {
      result.failures.push({ title, error });
      onFailure({ title, error });
    };
    const timer = setTimeout(() => {
      fail(`took longer than ${timeoutMs / 1000} s`, this.#output);
      void this.kill();
    }, timeoutMs);
    const { counted, isClean } = await new Promise((resolve) => {
      this.#child.on("message", (message) => {
        if (message.failure) fail(message.failure.title, message.failure.error);
        // What was printed before arrives before the next turn.
        else setImmediate(resolve, message);
      });
      void this.#closed.then(() => resolve({}));
      // That it has ended meanwhile is told by its end.
      this.#child.send({ file }, () => {});
    });
    clearTimeout(timer);
    this.#child.removeAllListeners("message");
    const { exitCode, signalCode } = this.#child;
    const how = signalCode ?? `exit code ${exitCode}`;
    if (!counted && result.failures.length === 0) fail(`ended (${how}) before all its tests had run`, this.#output);
    if (!isClean) await this.end();
    return { ...result, ...counted, output: this.#output };
  }

  /** Has it end by itself, or else kills it. */
  async end() {
    if (this.isAlive) this.#child.send({}, () => {});
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), KILL_AFTER_MS);
    await this.#closed;
    clearTimeout(timer);
  }

  async kill() {
    // First in a way that lets it end what it started.
    this.#child.kill("SIGTERM");
    await this.end();
  }
}
