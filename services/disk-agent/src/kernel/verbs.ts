import { type ChildProcess, execFile } from "node:child_process";
import { messageOf, UnavailableError } from "@diskmesh/domain";

const VERB_TIMEOUT_MS = 10_000;

/** A change of the kernel's NVMe/TCP, as a script of the shell. */
export interface Verb {
  /** Text for errors. */
  readonly what: string;
  readonly script: string;
  readonly args: readonly string[];
}

/**
 * Changes the kernel's NVMe/TCP by writes that may hang in the kernel. Each is a process of its own, so that none holds a
 * thread of the agent. Those of one subject follow each other, and one that hangs holds up its subject alone.
 */
export class Verbs {
  readonly #timeoutMs: number;
  /** End of the last process of each subject. */
  readonly #last = new Map<string, Promise<void>>();

  constructor(timeoutMs = VERB_TIMEOUT_MS) {
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Returns the output. Throws UnavailableError when the verb fails, or has not ended in time, the wait for former verbs of
   * the subject included. `check` throws when the verb is no longer due; it runs right before the process begins.
   */
  run(subject: string, verb: Verb, check = () => {}): Promise<string> {
    const { what, script, args } = verb;
    const before = this.#last.get(subject) ?? Promise.resolve();
    let child: ChildProcess | undefined;
    let isLate = false;
    let timer: NodeJS.Timeout | undefined;
    const ended: Promise<void>[] = [];
    const result = new Promise<string>((resolve, reject) => {
      timer = setTimeout(() => {
        isLate = true;
        const why = child === undefined ? "a former change has not ended" : "the kernel does not answer";
        child?.kill("SIGKILL");
        reject(new UnavailableError(`${what} failed: it did not end within ${this.#timeoutMs} ms, because ${why}`));
      }, this.#timeoutMs);
      const started = before.then(
        () =>
          new Promise<void>((done) => {
            try {
              if (!isLate) check();
            } catch (error) {
              reject(error);
              isLate = true;
            }
            if (isLate) return done();
            child = execFile("sh", ["-euc", script, "verb", ...args], (error, stdout, stderr) => {
              if (error === null) resolve(stdout);
              else reject(new UnavailableError(`${what} failed: ${stderr.trim() || messageOf(error)}`));
              done();
            });
          }),
      );
      ended.push(started);
    });
    const last = Promise.all(ended).then(() => {
      if (this.#last.get(subject) === last) this.#last.delete(subject);
    });
    this.#last.set(subject, last);
    return result.finally(() => clearTimeout(timer));
  }
}
