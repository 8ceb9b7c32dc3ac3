import { type ChildProcess, spawn } from "node:child_process";
import { CpiUnusableError } from "@diskmesh/cpi";
import { diskFullError, InvalidArgumentError, messageOf, TimeoutError, UnavailableError } from "@diskmesh/domain";
import { invalid, LASTING } from "../model/answers.js";
import { Answer, type AnswerBudget, type AnswerLimits } from "./answer.js";
import { installedProgram } from "./installed-program.js";
import { LineSplitter } from "./line-splitter.js";
import { PipeReader } from "./pipe-reader.js";
import { endGroup } from "./process-group.js";
import type { RunFolder, RunRecord } from "./run-folder.js";

/** The limits of a CPI process. */
export interface ExecutableLimits extends AnswerLimits {
  readonly timeoutMs: number;
  /** The config key of the time limit; undefined when it is not configurable. */
  readonly timeoutSetting: string | undefined;
  /** Time between SIGTERM and SIGKILL of a cancelled process. */
  readonly cancelGraceMs: number;
  readonly maxRequestBytes: number;
  readonly maxLogLineLength: number;
  /** Maximum characters forwarded from a call's log. */
  readonly maxLogLength: number;
  readonly maxStderrBytesPerSecond: number;
  /** Maximum bytes on standard error. A CPI that writes more is killed. */
  readonly maxStderrBytes: number;
}

export interface ExecutableCall {
  readonly execPath: string;
  /** The executable must be installed below this folder. */
  readonly jobsFolder: string;
  /** May contain secrets. */
  readonly request: string;
  readonly limits: ExecutableLimits;
  readonly runFolder: RunFolder;
  readonly answerBudget: AnswerBudget;
  readonly signal: AbortSignal;
  /** Receives each line of standard error; `isCut` marks a line whose end is missing. */
  readonly onLine: (line: string, isCut: boolean) => void;
}

const PATH = "/usr/sbin:/usr/bin:/sbin:/bin";

/** Time for which other processes of the group may continue the answer after the CPI's exit. */
const GROUP_ANSWER_MS = 2_000;

/** Time for which the log is read after the answer while another process still writes it. */
const LAST_LINES_MS = 200;

export interface Output {
  readonly text: string;
  /** Null after a signal. */
  readonly exitCode: number | null;
  /**
   * The reason of the cancellation, if any. The CPI may have been ended in the middle of its work, so its answer may be
   * arbitrary.
   */
  readonly givenUp: Error | undefined;
}

/**
 * Runs a CPI once, with the request on standard input, and returns its standard output. No process of the CPI's group
 * is left when this returns or throws.
 */
export async function runExecutable(call: ExecutableCall): Promise<Output> {
  const { execPath, request, limits, signal } = call;
  const requestBytes = Buffer.byteLength(request);
  if (requestBytes > limits.maxRequestBytes)
    throw new InvalidArgumentError(
      `the request to the CPI has ${requestBytes} bytes: the limit is ${limits.maxRequestBytes}`,
    );
  const program = await installedProgram(execPath, call.jobsFolder).catch((error: Error) => {
    throw error instanceof CpiUnusableError ? error : cannotRun(error, execPath);
  });
  // Checked after the last await, so that a cancelled call starts no process.
  signal.throwIfAborted();
  const record = beginRun(call.runFolder);
  try {
    const child = spawn(program, [], {
      stdio: ["pipe", "pipe", "pipe"],
      // A new session and process group, so that all processes can be killed.
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
    const text = "the CPI was not started, because its run cannot be recorded";
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

/** A process from its start until its whole group has ended. */
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
    this.#answer = new Answer(limits, call.answerBudget, (refused) => this.fail(refused));
    this.#stdout = new PipeReader(child.stdout, (bytes) => this.#answer.add(bytes));
    this.#stderr = new PipeReader(child.stderr, (bytes) => this.#pass(bytes, lines), limits.maxStderrBytesPerSecond);
    // Ignored: a CPI may exit without reading its request.
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
      return { text: this.#text(), exitCode: child.exitCode, givenUp: this.#givenUp };
    } finally {
      this.#answer.drop();
    }
  }

  /**
   * Reads the answer until the pipe is quiet, kills the group, and reads the rest. Other processes of the group may
   * continue the answer after the CPI's exit.
   */
  async #readAnswer(groupId: number): Promise<void> {
    const ending = this.#ending.signal;
    await this.#stdout.untilQuiet(ending, GROUP_ANSWER_MS);
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
    const ending = signalCode ? `signal ${signalCode}` : `exit code ${exitCode}`;
    throw invalid(`the CPI wrote no answer and ended with ${ending}`, exitCode === 0 ? LASTING : {});
  }

  #pass(bytes: Buffer, lines: LineSplitter): void {
    if (this.#failure) return;
    lines.write(bytes);
    this.#logBytes += bytes.length;
    const { maxStderrBytes } = this.call.limits;
    // A child that inherited the pipe may keep writing after the CPI exited; its output does not count against the
    // limit.
    if (this.#logBytes <= maxStderrBytes || this.#hasExited) return;
    this.fail(invalid(`the CPI wrote more than ${maxStderrBytes} bytes to standard error and was killed`, LASTING));
  }

  /** Enforces the time limit. An answer still counts if the CPI exited in time while this process was busy. */
  #endLate(): void {
    this.#isLate = true;
    // The CPI has exited, so a process that inherited its pipe is still writing; the call fails without a kill.
    if (this.#hasExited) this.fail(tooSlow(this.call));
    else this.#signalGroup("SIGKILL");
  }

  /**
   * Handles the caller's cancellation. SIGTERM lets the CPI clean up, and an answer that it had completed still counts.
   */
  #giveUp(reason: Error): void {
    this.#givenUp = reason;
    this.#ending.abort();
    this.#signalGroup("SIGTERM");
  }

  /** Fails the call and kills the group, unless the process has exited. */
  fail(failure: Error): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#ending.abort();
    this.#answer.drop();
    // The kill lets the CPI exit; `#run`, which waits for the exit, then throws the failure.
    this.#signalGroup("SIGKILL");
  }

  get #hasExited(): boolean {
    return this.child.exitCode !== null || this.child.signalCode !== null;
  }

  /**
   * Signals the group only before the exit, because the process id may be reused afterwards. `#readAnswer` kills the
   * rest of the group after the exit.
   */
  #signalGroup(signal: "SIGTERM" | "SIGKILL"): void {
    if (this.#hasExited) return;
    try {
      process.kill(-(this.child.pid as number), signal);
    } catch {
      // The process has ended already.
    }
  }
}

const nameOf = (runFolder: RunFolder): string => `${runFolder.folder} (executables.runFolder)`;

function cannotRecord(error: unknown, runFolder: RunFolder): Error {
  const text = "the CPI was killed, because its run cannot be recorded";
  const noRoom = diskFullError(error, text, nameOf(runFolder), "unknown");
  return noRoom ?? new UnavailableError(`${text}: ${messageOf(error)}`, { outcome: "unknown", cause: error });
}

function tooSlow({ limits, execPath }: ExecutableCall): Error {
  const { timeoutMs, timeoutSetting } = limits;
  const setting = timeoutSetting === undefined ? "" : ` (${timeoutSetting})`;
  return new TimeoutError(
    `the CPI ${execPath} took longer than ${timeoutMs} ms${setting} and was killed; the outcome of the call is not known`,
  );
}
