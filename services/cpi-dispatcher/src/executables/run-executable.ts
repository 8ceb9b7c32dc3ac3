import { type ChildProcess, spawn } from "node:child_process";
import { CpiUnusableError } from "@diskmesh/cpi";
import { diskFullError, InvalidArgumentError, messageOf, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { invalid } from "../model/answers.js";
import { Answer, type AnswerLimits, type AnswerRoom } from "./answer.js";
import { installedProgram } from "./installed-program.js";
import { LineSplitter } from "./line-splitter.js";
import { PipeReader } from "./pipe-reader.js";
import { endGroup } from "./process-group.js";
import type { RunFolder, RunRecord } from "./run-folder.js";

/** The limits of one process of a CPI. */
export interface ExecutableLimits extends AnswerLimits {
  /** Longest time of a call. */
  readonly timeoutMs: number;
  /** The key of the config that sets it, if one does. */
  readonly timeoutSetting: string | undefined;
  /** Time to clean up for one that was given up: SIGTERM comes first, SIGKILL then. */
  readonly cancelGraceMs: number;
  readonly maxRequestBytes: number;
  /** Longest line of a log that is passed on, in characters. */
  readonly maxLogLineLength: number;
  /** Most of the log of one call that is passed on, in characters. */
  readonly maxLogLength: number;
  /** How fast standard error is read. */
  readonly maxStderrBytesPerSecond: number;
  /** Most bytes on standard error; a CPI that writes more is killed. */
  readonly maxStderrBytes: number;
}

export interface ExecutableCall {
  readonly execPath: string;
  /** Below it the executable must be. */
  readonly jobsFolder: string;
  /** The request; it may hold secrets. */
  readonly request: string;
  readonly limits: ExecutableLimits;
  readonly runFolder: RunFolder;
  readonly answerRoom: AnswerRoom;
  readonly signal: AbortSignal;
  /** Gets the lines of standard error as they come; of one that is cut, its end is missing. */
  readonly onLine: (line: string, isCut: boolean) => void;
}

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** After the end of a process, the longest that others of its group may go on with its answer. */
const GROUP_ANSWER_MS = 2_000;

/** After the answer, the longest that a log is read which somebody else still writes. */
const LAST_LINES_MS = 200;

/** A CPI's standard output. */
export interface Output {
  readonly text: string;
  /** Why its caller gave it up, if it did: the CPI may have been ended in the middle, and says whatever it says then. */
  readonly givenUp: Error | undefined;
}

/**
 * Runs a CPI once: the request on its standard input, the answer on its standard output, which is returned. When this
 * returns or throws, no process of its group is left, whatever it has started.
 */
export async function runExecutable(call: ExecutableCall): Promise<Output> {
  const { execPath, request, limits, signal } = call;
  const requestBytes = Buffer.byteLength(request);
  if (requestBytes > limits.maxRequestBytes)
    throw new InvalidArgumentError(
      `the request to the CPI has ${requestBytes} bytes, more than ${limits.maxRequestBytes}`,
    );
  const program = await installedProgram(execPath, call.jobsFolder).catch((error: Error) => {
    throw error instanceof CpiUnusableError ? error : cannotRun(error, execPath);
  });
  // Behind the last wait: what was given up meanwhile is not started.
  signal.throwIfAborted();
  const record = beginRun(call.runFolder);
  try {
    const child = spawn(program, [], {
      stdio: ["pipe", "pipe", "pipe"],
      // A session and group of its own, so that all of it can be killed.
      detached: true,
      env: { PATH, TMPDIR: record.folder, HOME: process.env.HOME ?? "/" },
    });
    await spawned(child, execPath);
    const run = new Run(child as RunningChild, call);
    try {
      record.started(child.pid as number);
    } catch (error) {
      run.fail(cannotRecord(error, call.runFolder));
    }
    return await run.ended;
  } finally {
    await record.end();
  }
}

function beginRun(runFolder: RunFolder): RunRecord {
  try {
    return runFolder.begin();
  } catch (error) {
    const text = "no CPI was started, since its run cannot be recorded";
    const noRoom = diskFullError(error, text, nameOf(runFolder));
    throw noRoom ?? new UnavailableError(`${text}: ${messageOf(error)}`, { cause: error });
  }
}

type RunningChild = ChildProcess & Required<{ [Key in "stdin" | "stdout" | "stderr"]: NonNullable<ChildProcess[Key]> }>;

function spawned(child: ChildProcess, execPath: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", (error: NodeJS.ErrnoException) => reject(cannotRun(error, execPath)));
  });
}

function cannotRun(error: NodeJS.ErrnoException, execPath: string): Error {
  if (["EAGAIN", "ENOMEM", "EMFILE", "ENFILE"].includes(error.code ?? ""))
    return new UnavailableError(`the system cannot start another process now: ${messageOf(error)}`, { cause: error });
  return new CpiUnusableError(
    `the CPI's executable ${execPath} cannot be run (${error.code}): install it there, or correct exec_path`,
    { cause: error },
  );
}

/** A process from its start until nothing of it is left. */
class Run {
  readonly ended: Promise<Output>;
  readonly #stdout: PipeReader;
  readonly #stderr: PipeReader;
  readonly #answer: Answer;
  #logBytes = 0;
  readonly #ending = new AbortController();
  #failure: Error | undefined;
  #givenUp: Error | undefined;
  #isLate = false;

  constructor(
    private readonly child: RunningChild,
    private readonly call: ExecutableCall,
  ) {
    const { limits, onLine } = call;
    const lines = new LineSplitter(
      { maxLineLength: limits.maxLogLineLength, maxTotalLength: limits.maxLogLength },
      onLine,
    );
    this.#answer = new Answer(limits, call.answerRoom, (refused) => this.fail(refused));
    this.#stdout = new PipeReader(child.stdout, (bytes) => this.#answer.add(bytes));
    this.#stderr = new PipeReader(child.stderr, (bytes) => this.#pass(bytes, lines), limits.maxStderrBytesPerSecond);
    // A CPI may end without having read its request.
    child.stdin.on("error", () => {});
    child.on("error", () => {});
    child.stdin.end(call.request);
    this.ended = this.#run().finally(() => lines.end());
  }

  async #run(): Promise<Output> {
    const { child, call } = this;
    const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
    let killTimer: NodeJS.Timeout | undefined;
    const abort = () => {
      this.#giveUp(call.signal.reason);
      killTimer = setTimeout(() => this.#signalGroup("SIGKILL"), call.limits.cancelGraceMs);
    };
    const timer = setTimeout(() => this.#endLate(), call.limits.timeoutMs);
    call.signal.addEventListener("abort", abort);
    if (call.signal.aborted) abort();
    try {
      await exited;
      clearTimeout(killTimer);
      if (this.#isLate && child.signalCode !== null && !this.#givenUp) this.fail(tooSlow(call));
      await this.#readAnswer(child.pid as number);
    } finally {
      clearTimeout(timer);
      clearTimeout(killTimer);
      call.signal.removeEventListener("abort", abort);
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
    }
    if (this.#failure) throw this.#failure;
    try {
      return { text: this.#text(), givenUp: this.#givenUp };
    } finally {
      this.#answer.drop();
    }
  }

  /** Reads what came before the exit, and what of the group or others that hold the pipe still comes; ends the group. */
  async #readAnswer(groupId: number): Promise<void> {
    const ending = this.#ending.signal;
    await this.#stdout.untilQuiet(ending, GROUP_ANSWER_MS);
    // Ends the rest of the group.
    await endGroup(groupId);
    await this.#stdout.untilQuiet(ending, this.#isLate ? GROUP_ANSWER_MS : undefined);
    this.#stderr.hurry();
    await this.#stderr.untilQuiet(ending, LAST_LINES_MS);
  }

  #text(): string {
    const { exitCode, signalCode } = this.child;
    const { text } = this.#answer;
    if (text !== undefined) return text;
    if (this.#givenUp) throw this.#givenUp;
    throw invalid(`there is none: the CPI ended with ${signalCode ? `signal ${signalCode}` : `exit code ${exitCode}`}`);
  }

  #pass(bytes: Buffer, lines: LineSplitter): void {
    if (this.#failure) return;
    lines.write(bytes);
    this.#logBytes += bytes.length;
    const { maxStderrBytes } = this.call.limits;
    // Output of other holders of the pipe is no failure of a CPI that has ended.
    if (this.#logBytes <= maxStderrBytes || this.#hasExited) return;
    this.fail(invalid(`the CPI wrote more than ${maxStderrBytes} bytes to standard error and was killed`));
  }

  /** Its time is over. The answer of one that had ended in time, while this process was busy, counts all the same. */
  #endLate(): void {
    this.#isLate = true;
    // Then somebody else goes on and on with its answer.
    if (this.#hasExited) this.fail(tooSlow(this.call));
    else this.#signalGroup("SIGKILL");
  }

  /** Nobody waits for it any more. It may clean up, and an answer that it had by then still counts. */
  #giveUp(reason: Error): void {
    this.#givenUp = reason;
    this.#ending.abort();
    this.#signalGroup("SIGTERM");
  }

  /** Kills it all, unless it has ended. */
  fail(failure: Error): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#ending.abort();
    this.#answer.drop();
    // The exit that follows goes on with the rest.
    this.#signalGroup("SIGKILL");
  }

  get #hasExited(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /** Once it has exited its number may be another's. What is left of its group is ended by then anyway. */
  #signalGroup(signal: "SIGTERM" | "SIGKILL"): void {
    if (this.#hasExited) return;
    try {
      process.kill(-(this.child.pid as number), signal);
    } catch {
      // It has ended already.
    }
  }
}

const nameOf = (runFolder: RunFolder): string => `${runFolder.folder} (executables.runFolder)`;

function cannotRecord(error: unknown, runFolder: RunFolder): Error {
  const text = "the CPI was killed, since its run cannot be recorded";
  const noRoom = diskFullError(error, text, nameOf(runFolder), "unknown");
  return noRoom ?? new UnavailableError(`${text}: ${messageOf(error)}`, { outcome: "unknown", cause: error });
}

function tooSlow({ limits, execPath }: ExecutableCall): Error {
  const { timeoutMs, timeoutSetting } = limits;
  const setting = timeoutSetting === undefined ? "" : ` (${timeoutSetting})`;
  return new TimeoutError(
    `the CPI ${execPath} took longer than ${timeoutMs} ms${setting} and was killed; what it has done is not known`,
  );
}
