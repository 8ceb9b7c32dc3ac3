import { type ChildProcess, spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { endsWithParent } from "./ends-with-parent.js";
import { onExit } from "./on-exit.js";

export interface ChildOptions {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Runs the command and becomes it, e.g. `nsenter` with its options. */
  readonly launcher?: readonly string[] | undefined;
  readonly env?: Readonly<Record<string, string>>;
  /** The file that the output is appended to, to be read after a failure. */
  readonly logFile: string;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

// At least so much is enough for what a test looks for; the file has everything.
const MAX_LOG_LENGTH = 4 * 1024 * 1024;

/** A process of the operating system that does not outlive this one. */
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

  /** Undefined while it runs. */
  get exit(): Exit | undefined {
    return this.#exit;
  }

  /** Everything written to standard output and standard error. */
  get output(): string {
    return this.#output;
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  #keep(text: string): void {
    this.#output += text;
    // Seldom, because it copies all that is kept: at each line it took a talkative service's test more than the service.
    if (this.#output.length > 2 * MAX_LOG_LENGTH) this.#output = this.#output.slice(-MAX_LOG_LENGTH);
    appendFileSync(this.options.logFile, text);
  }
}
