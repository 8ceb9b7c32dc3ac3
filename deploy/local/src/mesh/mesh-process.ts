import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, fstatSync, openSync, readFileSync, renameSync } from "node:fs";
import { MIB_BYTES } from "@diskmesh/domain";

const KEEP_LOG_UP_TO_BYTES = 16 * MIB_BYTES;
const LAST_LINES_READ_BYTES = 64 * 1024;

// Lines below the message of an uncaught error in Node's output.
const BELOW_AN_ERROR = /^\s+at |^\s*[{}]\s*$|^\s+\w+: |^Node\.js v/;

export interface ProcessSpec {
  readonly name: string;
  readonly file: string;
  readonly args: readonly string[];
  readonly logFile: string;
  /** Added to the launcher's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface ProcessEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Set when the program could not be started. */
  readonly error?: Error;
}

/** One run of a program of the mesh, with its output in a file. */
export class MeshProcess {
  readonly ended: Promise<ProcessEnd>;
  private readonly child: ChildProcess;

  constructor(readonly spec: ProcessSpec) {
    const log = openLog(spec.logFile);
    // Starts the program in a session of its own, so that Ctrl-C in the terminal reaches only the launcher, which stops
    // the mesh in order.
    const env = { ...process.env, ...spec.env };
    this.child = spawn(spec.file, [...spec.args], { detached: true, stdio: ["ignore", log, log], env });
    closeSync(log);
    this.ended = new Promise((resolve) => {
      this.child.once("error", (error) => resolve({ code: null, signal: null, error }));
      this.child.once("exit", (code, signal) => resolve({ code, signal }));
    });
  }

  /** Undefined when the program could not be started. */
  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Stops the process, and kills it after `graceMs`. Returns true when it stopped by itself. */
  async stop(graceMs: number): Promise<boolean> {
    this.child.kill("SIGTERM");
    let killed = false;
    const timer = setTimeout(() => {
      killed = true;
      this.child.kill("SIGKILL");
    }, graceMs);
    await this.ended;
    clearTimeout(timer);
    return !killed;
  }
}

function openLog(file: string): number {
  const log = openSync(file, "a", 0o600);
  if (fstatSync(log).size <= KEEP_LOG_UP_TO_BYTES) return log;
  closeSync(log);
  renameSync(file, `${file}.old`);
  return openSync(file, "a", 0o600);
}

/** Returns the last message in a program's log file, which is printed when the program has ended. */
export function lastLogLine(file: string): string {
  const lines = readFileSync(file, "utf8").slice(-LAST_LINES_READ_BYTES).split("\n");
  const line = lines.findLast((text) => text.trim() !== "" && !BELOW_AN_ERROR.test(text)) ?? "nothing";
  // Services log JSON with the message in a field.
  try {
    return String((JSON.parse(line) as { message?: unknown }).message ?? line);
  } catch {
    return line;
  }
}
