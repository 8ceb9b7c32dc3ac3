import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { endsWithParent } from "./ends-with-parent.js";
import { onExit } from "./on-exit.js";

export interface ChildOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Command prefix that executes the program, e.g. `nsenter` with its options. */
  readonly launcher?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>>;
  /** File to which stdout and stderr are appended, for reading after a failure. */
  readonly logFile: string;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

// Number of latest characters of output kept in memory; the log file has all of them.
const MAX_LOG_LENGTH = 4 * 1024 * 1024;

/** A child process that ends with the test process. */
export class Child {
  readonly exited: Promise<Exit>;
  #exit: Exit | undefined;
  #output = "";
  readonly #process: ChildProcess;

  constructor(private readonly options: ChildOptions) {
    const [command = "", ...args] = [
      ...endsWithParent(),
      ...(options.launcher ?? []),
      options.command,
      ...options.args,
    ];
    this.#process = spawn(command, args, {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...options.env },
    });
    const forget = onExit(() => this.#process.kill("SIGKILL"));
    this.exited = new Promise((resolve) => {
      const end = (exit: Exit): void => {
        forget();
        this.#exit ??= exit;
        resolve(this.#exit);
      };
      this.#process.once("error", (error) => {
        this.#keep(`cannot run ${options.command}: ${error.message}\n`);
        end({ code: null, signal: null });
      });
      // "close" fires after stdout and stderr have been read to the end; "exit" may fire earlier.
      this.#process.once("close", (code, signal) => end({ code, signal }));
    });
    this.#process.stdout?.setEncoding("utf8").on("data", (text: string) => this.#keep(text));
    this.#process.stderr?.setEncoding("utf8").on("data", (text: string) => this.#keep(text));
  }

  get pid(): number {
    if (this.#process.pid === undefined) throw new Error(`${this.options.name} does not run`);
    return this.#process.pid;
  }

  /** Undefined while the process runs. */
  get exit(): Exit | undefined {
    return this.#exit;
  }

  /** Output to stdout and stderr; a long output is cut at the front. */
  get output(): string {
    return this.#output;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  #keep(text: string): void {
    this.#output += text;
    // Cuts only at twice the limit, because a cut copies the whole text. Cutting at each line took more time than the
    // test.
    if (this.#output.length > 2 * MAX_LOG_LENGTH) this.#output = this.#output.slice(-MAX_LOG_LENGTH);
    appendFileSync(this.options.logFile, text);
  }
}
