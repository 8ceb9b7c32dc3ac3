import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import {
  AlreadyExistsError,
  CancelledError,
  DriverError,
  type ErrorDetails,
  InvalidArgumentError,
  isJsonObject,
  type JsonObject,
  type Logger,
  messageOf,
  NotFoundError,
  ResourceExhaustedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { asUser } from "./as-user.js";
import { CallSecrets } from "./call-secrets.js";
import { ControlGroup } from "./control-group.js";
import type { DriverMemory } from "./driver-memory.js";
import { DriverOutput } from "./driver-output.js";
import type { DriverLimits } from "./limits.js";
import { readLines } from "./lines.js";
import { type CalledMethod, type DriverListing, parseListing, secretsOf } from "./listing.js";
import type { FailureKind } from "./method.js";
import { type DriverOffers, Offers } from "./offers.js";
import { type GroupUse, groupUse, killGroup, MARK } from "./process-group.js";
import type { Progress } from "./progress-feed.js";
import { ANSWERS_FD, type FromDriver, MAX_PROGRESS_LENGTH, type ToDriver } from "./protocol.js";

const RUNNER = fileURLToPath(new URL("./driver-runner.js", import.meta.url));

/** Excludes the service's environment: its secrets, addresses and Node options. */
const ENVIRONMENT = { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LANG: "C.UTF-8" };
const LINE_MARGIN_BYTES = 65_536;
const BASE64_GROWTH = 4 / 3;
const RETRY_FULL_MS = 1_000;

export interface DriverProcessOptions {
  readonly package: string;
  readonly settings: JsonObject;
  readonly nodeId: string;
  /** System user of the process, with the group of the same name. Undefined: the user of this process. */
  readonly user: string | undefined;
  readonly limits: DriverLimits;
  readonly offers: DriverOffers;
  readonly memory: DriverMemory;
  readonly log: Pick<Logger, "info">;
  readonly onLoaded: (listing: DriverListing) => void;
  /** Called once, when none of the driver's processes runs any more. */
  readonly onEnd: (reason: string) => void;
}

/** A method call with its timeout and cancellation signal. */
export interface DriverCall extends CalledMethod {
  readonly httpMethod: string;
  readonly nodeId: string;
  readonly validateOnly: boolean;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
}

interface Running {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  readonly onProgress: DriverCall["onProgress"];
}

/** The failure of a method that was cancelled and tells what it left. */
class StoppedError extends DriverError {}

const ERRORS: Readonly<Record<FailureKind, new (message: string, details?: ErrorDetails) => Error>> = {
  invalid: InvalidArgumentError,
  not_found: NotFoundError,
  conflict: AlreadyExistsError,
  unavailable: UnavailableError,
  cancelled: StoppedError,
  failed: DriverError,
};

function notBegun(driver: string, reason: string): UnavailableError {
  const text = `driver ${driver} has ended, and the method was not started: ${reason}`;
  return new UnavailableError(text, { about: { driver } });
}

/** Returns the reason of the cancellation with the driver's statement. */
function withWhatIsLeft(why: Error, { message }: StoppedError): Error {
  if (why instanceof TimeoutError) return new TimeoutError(`${why.message}, and was cancelled: ${message}`);
  return new CancelledError(`the method was cancelled: ${message}`);
}

/**
 * A single run of a driver's process. A process that exceeds a limit is killed, and its pending calls fail with the
 * limit as the reason.
 */
export class DriverProcess {
  readonly #options: DriverProcessOptions;
  readonly #child: ChildProcess;
  readonly #output: DriverOutput;
  readonly #offers: Offers;
  readonly #running = new Map<number, Running>();
  readonly #secrets = new CallSecrets();
  readonly #timers = new Set<NodeJS.Timeout>();
  #lastCall = 0;
  #listing: DriverListing | undefined;
  #reason: string | undefined;
  #hasExited = false;
  /** True once the process has ended; its calls then fail. */
  hasEnded = false;
  /** Undefined where this process cannot create control groups. */
  #group = ControlGroup.create();
  /** Environment variable value that all child processes inherit, so that they can be found and killed. */
  readonly #mark = randomUUID();
  /** Processor time that the process and its children used beyond their sustained share. */
  #burstMs = 0;
  #usedMs = 0;
  #checkedAtMs = performance.now();
  /** Processor time at the last unanswered ping; undefined when no ping is pending. */
  #pingedAtProcessorMs: number | undefined;

  constructor(options: DriverProcessOptions) {
    this.#options = options;
    const { limits, settings, nodeId, log, user } = options;
    const [program = "", ...args] = [
      ...(user === undefined ? [] : asUser(user)),
      // The runner ignores the package: it tells operators which driver the process is.
      ...[process.execPath, `--max-old-space-size=${limits.maxMemoryMib}`, RUNNER, options.package],
    ];
    this.#child = spawn(program, args, {
      cwd: "/",
      env: { ...ENVIRONMENT, [MARK]: this.#mark },
      // A process group of its own, so that the driver's child processes can be killed with it.
      detached: true,
      stdio: ["pipe", "pipe", "pipe", "pipe"],
    });
    // The process runs nothing of the driver before it is told to load the driver.
    const { pid } = this.#child;
    if (pid !== undefined && this.#group?.add(pid) === false) void this.#dropControlGroup();
    this.#child.on("error", (error) => this.#end(`its process cannot be started: ${error.message}`));
    this.#child.on("exit", () => {
      this.#killGroup();
      this.#hasExited = true;
      // An escaped child process may hold the pipes open forever.
      this.#after(limits.drainMs, () => this.#dropPipes());
    });
    this.#child.on("close", () => this.#end(this.#exitReason()));
    this.#output = new DriverOutput({
      limits,
      log,
      redactor: () => this.#secrets.redactor,
      onFlood: (reason) => this.kill(reason),
    });
    this.#offers = new Offers({
      offers: options.offers,
      memory: options.memory,
      from: options.package,
      send: (message) => this.#send(message),
      hide: (text) => this.#secrets.redactor.text(text),
      onFlood: (reason) => this.kill(reason),
    });
    this.#listen();
    this.#send({ type: "load", package: options.package, settings, nodeId, maxAnswerBytes: limits.maxAnswerBytes });
    this.#after(limits.loadTimeoutMs, () => this.kill(`it did not load within ${limits.loadTimeoutMs} ms`));
  }

  /** Resolves with the method's result: JSON, or a Buffer. Rejects with a domain error. */
  async call(call: DriverCall): Promise<unknown> {
    const { kind, method, httpMethod, args, nodeId, validateOnly, timeoutMs, signal, onProgress } = call;
    signal.throwIfAborted();
    if (this.#hasExited || this.#reason !== undefined)
      throw notBegun(this.#options.package, this.#reason ?? this.#exitReason());
    const { maxConcurrentCalls } = this.#options.limits;
    if (this.#running.size >= maxConcurrentCalls)
      throw new ResourceExhaustedError(`${maxConcurrentCalls} calls of the driver run, its limit: try again later`, {
        reason: "QUEUE_FULL",
        about: { driver: this.#options.package },
        retryAfterMs: RETRY_FULL_MS,
      });
    const id = ++this.#lastCall;
    this.#secrets.begin(id, secretsOf(this.#listing, call));
    const late = `method ${method} did not return within ${timeoutMs} ms`;
    let why: unknown;
    const cancel = (error: Error): void => {
      why ??= error;
      this.#send({ type: "cancel", id, why: error.message });
      timers.push(
        setTimeout(() => this.kill(`${late}, nor when it was cancelled`), this.#options.limits.cancelGraceMs),
      );
    };
    const timers = [setTimeout(() => cancel(new TimeoutError(late)), timeoutMs)];
    const onAbort = (): void => cancel(signal.reason as Error);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      return await new Promise<unknown>((resolve, reject) => {
        this.#running.set(id, { resolve, reject, onProgress });
        this.#send({ type: "call", id, kind, method, httpMethod, args, nodeId, validateOnly });
      });
    } catch (error) {
      // The caller gets the reason of the cancellation rather than the driver's error. A driver that ignores the
      // cancellation is killed.
      if (why === undefined && validateOnly && this.#reason !== undefined)
        throw notBegun(this.#options.package, this.#reason);
      if (why instanceof Error && error instanceof StoppedError) throw withWhatIsLeft(why, error);
      throw why ?? error;
    } finally {
      this.#running.delete(id);
      this.#secrets.end(id);
      for (const timer of timers) clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Checks memory, processor time and liveness. Called periodically. */
  async checkLimits(): Promise<void> {
    const { pid } = this.#child;
    const use = pid === undefined ? undefined : await groupUse(pid, this.#group?.pids());
    if (use === undefined || this.#reason !== undefined) return;
    const { maxMemoryMib, maxTurnProcessorMs } = this.#options.limits;
    // Includes memory outside V8's heap, in addition to Node's own share.
    const maxProcessMib = 2 * maxMemoryMib + 128;
    if (use.memoryBytes > maxProcessMib * 1_048_576)
      return this.kill(
        `it and its child processes use ${Math.round(use.memoryBytes / 1_048_576)} MiB of memory, more than the limit of ${maxProcessMib} MiB`,
      );
    this.#countProcessor(use);
    if (this.#pingedAtProcessorMs === undefined) {
      this.#pingedAtProcessorMs = use.ownProcessorMs;
      this.#send({ type: "ping" });
    } else if (use.ownProcessorMs - this.#pingedAtProcessorMs > maxTurnProcessorMs)
      this.kill(`it kept its event loop busy for more than ${maxTurnProcessorMs} ms of a processor`);
  }

  #countProcessor({ processorMs }: GroupUse): void {
    const { maxProcessorShare, maxProcessorBurstMs } = this.#options.limits;
    const nowMs = performance.now();
    const allowedMs = (nowMs - this.#checkedAtMs) * maxProcessorShare;
    this.#burstMs = Math.max(0, this.#burstMs + processorMs - this.#usedMs - allowedMs);
    this.#usedMs = processorMs;
    this.#checkedAtMs = nowMs;
    if (this.#burstMs > maxProcessorBurstMs)
      this.kill(
        `it and its child processes used ${maxProcessorBurstMs} ms of processor time above the allowed share of ${maxProcessorShare} processors`,
      );
  }

  /** Kills the process group. Pending calls fail with the first reason given. */
  kill(reason: string): void {
    this.#reason ??= reason;
    this.#killGroup();
  }

  #listen(): void {
    const { stdout, stderr, stdio, stdin } = this.#child;
    const { maxAnswerBytes } = this.#options.limits;
    if (stdout !== null) this.#output.read(stdout);
    if (stderr !== null) this.#output.read(stderr);
    stdin?.on("error", () => undefined);
    const answers = stdio[ANSWERS_FD] as Readable | null | undefined;
    if (!answers) return;
    readLines(answers, {
      maxLineBytes: Math.ceil(maxAnswerBytes * BASE64_GROWTH) + LINE_MARGIN_BYTES,
      onLine: (line) => this.#heed(line),
      onTooLong: () => this.kill(`it answered more than ${maxAnswerBytes} bytes at once`),
    });
  }

  #heed(line: string): void {
    if (this.#reason !== undefined) return;
    try {
      const message: unknown = JSON.parse(line);
      if (!isJsonObject(message)) throw new TypeError("no object");
      this.#hear(message as FromDriver);
    } catch (error) {
      // The message of V8's SyntaxError is dropped, because it quotes the line and may split a secret.
      const why = error instanceof SyntaxError ? "its answer is not JSON" : messageOf(error).slice(0, 200);
      this.kill(`it broke the protocol: ${why}`);
    }
  }

  #hear(message: FromDriver): void {
    if (message.type === "loaded") this.#loaded(message.listing);
    else if (message.type === "fatal") this.kill(this.#secrets.redactor.beginning(String(message.reason)));
    else if (message.type === "answer") this.#take(message.id).resolve(message.value);
    else if (message.type === "bytes") this.#take(message.id).resolve(Buffer.from(String(message.base64), "base64"));
    else if (message.type === "failure") {
      const Kind = Object.hasOwn(ERRORS, message.kind) ? ERRORS[message.kind] : DriverError;
      const { reject } = this.#take(message.id);
      reject(new Kind(this.#secrets.redactor.beginning(String(message.message))));
    } else if (message.type === "progress") this.#onProgress(message);
    else if (message.type === "pong" && this.#pingedAtProcessorMs !== undefined) this.#pingedAtProcessorMs = undefined;
    else if (message.type === "ask") this.#offers.ask(message.id, message.what, message.args);
    else throw new TypeError("it sent an unknown message");
  }

  /** Ignores a call that has ended: the driver's process cannot know that yet. */
  #onProgress({ id, percent, text }: Extract<FromDriver, { type: "progress" }>): void {
    const isPercent = typeof percent === "number" && percent >= 0 && percent <= 100;
    if (!isPercent || typeof text !== "string") throw new TypeError("it sent a progress that is none");
    const shown = this.#secrets.redactor.beginning(text.slice(0, MAX_PROGRESS_LENGTH));
    const line = shown.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ");
    this.#running.get(id)?.onProgress?.({ percent: Math.floor(percent), text: line });
  }

  #take(id: unknown): Running {
    const running = this.#running.get(id as number);
    if (running === undefined) throw new TypeError("it answered an unknown call");
    this.#running.delete(id as number);
    return running;
  }

  #loaded(listing: unknown): void {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#listing = parseListing(listing);
    this.#options.onLoaded(this.#listing);
  }

  #send(message: ToDriver): void {
    const stdin = this.#child.stdin as Writable | null;
    if (stdin?.writable) stdin.write(`${JSON.stringify(message)}\n`);
  }

  #after(ms: number, act: () => void): void {
    this.#timers.add(setTimeout(act, ms));
  }

  #dropPipes(): void {
    for (const pipe of this.#child.stdio) pipe?.destroy();
    this.#end(this.#exitReason());
  }

  #exitReason(): string {
    const { exitCode, signalCode: signal } = this.#child;
    const refused = /^setpriv: .*/m.exec(this.#output.tail)?.[0];
    if (this.#listing === undefined && refused !== undefined)
      return `it cannot run as user ${this.#options.user} (${refused}): create it with useradd --system --user-group ${this.#options.user}, or set another \`user\``;
    if (signal === null) return `its process exited with code ${exitCode}`;
    if (this.#output.tail.includes("heap out of memory"))
      return `it ran out of its ${this.#options.limits.maxMemoryMib} MiB of memory`;
    return `its process was ended by ${signal}`;
  }

  /** Does nothing after the exit: the group was killed then, and its process id may belong to another process. */
  #killGroup(): void {
    const { pid } = this.#child;
    if (pid === undefined || this.#hasExited) return;
    this.#group?.kill();
    killGroup(pid, this.#mark);
  }

  #end(reason: string): void {
    if (this.hasEnded) return;
    this.hasEnded = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#reason ??= reason;
    const ended = this.#reason;
    const text = `the driver ended while the method ran, and the method's outcome is not known: ${ended}`;
    for (const { reject } of this.#running.values()) reject(new DriverError(text));
    this.#running.clear();
    void this.#dropControlGroup().then(() => this.#options.onEnd(ended));
  }

  async #dropControlGroup(): Promise<void> {
    const group = this.#group;
    this.#group = undefined;
    await group?.remove();
  }
}
