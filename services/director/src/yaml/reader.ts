import { Worker } from "node:worker_threads";
import { InvalidArgumentError, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import { EitherSignal, Slots } from "@diskmesh/service";
import { type Format, type Reading, type ReadingOf, type Results, readNow } from "./formats.js";
import { cpuMsOf } from "./thread-time.js";
import type { WorkerMessage } from "./worker.js";

export interface YamlReaderOptions {
  /** Texts up to this size are read on the event loop: any of them in a few milliseconds. */
  readonly maxEventLoopBytes: number;
  /** Threads at once, each for one text. */
  readonly threads: number;
  /** Texts that wait for a thread; more are refused. */
  readonly maxWaiting: number;
  /** How long a thread may have a processor for a text that is new. */
  readonly timeoutMs: number;
  /** And for one that was accepted once. */
  readonly storedTimeoutMs: number;
  readonly maxThreadMemoryMib: number;
}

export interface ReadOptions {
  /** It was accepted once: it is never refused for lack of room, and may take longer. */
  readonly stored?: boolean;
  readonly signal?: AbortSignal;
}

/** Where threads run `worker.ts`. */
const WORKER_FILE = new URL("./worker.js", import.meta.url);

/**
 * Reads YAML from outside so that nobody else waits for it: what may take long is read by a thread that is made for it,
 * and ended when it takes too much time or memory.
 */
export class YamlReader {
  readonly #options: YamlReaderOptions;
  readonly #closing = new AbortController();
  readonly #threads: Slots;

  constructor(options: YamlReaderOptions) {
    this.#options = options;
    this.#threads = new Slots(options.threads);
  }

  /** Throws InvalidArgumentError for what is no such text, or more than the limits allow. */
  async read<F extends Format>(reading: ReadingOf<F>, options: ReadOptions = {}): Promise<Results[F]> {
    if (isQuick(reading, this.#options.maxEventLoopBytes)) return readNow(reading);
    using stop = new EitherSignal(this.#closing.signal, options.signal);
    const leave = await this.#enter(options, stop.signal);
    try {
      stop.signal.throwIfAborted();
      return (await this.#inThread(reading, options, stop.signal)) as Results[F];
    } finally {
      leave();
    }
  }

  /** Ends all threads. */
  close(): void {
    this.#closing.abort(new UnavailableError("the director stops"));
  }

  async #enter({ stored }: ReadOptions, stopped: AbortSignal): Promise<() => void> {
    const { maxWaiting } = this.#options;
    if (!stored && this.#threads.waiting >= maxWaiting) {
      throw new ResourceExhaustedError(
        `${maxWaiting} texts wait to be read already, which is the limit (limits.yaml.maxWaiting): try again later`,
      );
    }
    return this.#threads.acquire(stopped);
  }

  async #inThread(reading: Reading, { stored }: ReadOptions, stopped: AbortSignal): Promise<unknown> {
    const { timeoutMs, storedTimeoutMs, maxThreadMemoryMib } = this.#options;
    const limitMs = stored ? storedTimeoutMs : timeoutMs;
    const limitName = stored ? "storedTimeoutMs" : "timeoutMs";
    const worker = new Worker(WORKER_FILE, {
      workerData: reading,
      // Nothing that the process was started with: neither its tracing nor its secrets.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: maxThreadMemoryMib },
    });
    // Ended while it still reads its own program, a thread leaves the files of that open in this process.
    const hasLoaded = new Promise<void>((resolve) => {
      worker.once("message", () => resolve()).once("exit", () => resolve());
    });
    const time = new ThreadTime(limitMs);
    try {
      return await new Promise<unknown>((resolve, reject) => {
        const refuse = (text: string): void => reject(new InvalidArgumentError(text));
        const what = `the ${whatOf(reading)}`;
        time.whenOver(() =>
          refuse(`${what} takes longer to read than ${limitMs} ms (limits.yaml.${limitName}): make it simpler`),
        );
        stopped.addEventListener("abort", () => reject(stopped.reason), { once: true });
        worker
          .on("message", (message: WorkerMessage) => {
            if ("thread" in message) time.thread = message.thread;
            else if ("json" in message) resolve(JSON.parse(message.json));
            else refuse(message.refused);
          })
          .once("error", (error: NodeJS.ErrnoException) => {
            if (error.code !== "ERR_WORKER_OUT_OF_MEMORY") reject(error);
            refuse(`${what} takes more memory to read than ${maxThreadMemoryMib} MiB (limits.yaml.maxThreadMemoryMib)`);
          })
          .once("exit", (code) => reject(new Error(`the thread that read ${what} ended with ${code}`)));
      });
    } finally {
      time.close();
      await hasLoaded;
      await worker.terminate();
    }
  }
}

/** Waits until a thread has had its time of a processor: what else keeps the machine busy is no fault of a text. */
class ThreadTime {
  /** Known once the thread runs; empty where the system has no name for it. */
  thread: string | undefined;
  readonly #limitMs: number;
  readonly #startedAtMs = performance.now();
  #timer: NodeJS.Timeout | undefined;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
  }

  whenOver(over: () => void): void {
    const leftMs = this.#limitMs - this.#usedMs();
    if (leftMs <= 0) over();
    else this.#timer = setTimeout(() => this.whenOver(over), Math.max(leftMs, SHORTEST_WAIT_MS));
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #usedMs(): number {
    const passedMs = performance.now() - this.#startedAtMs;
    // One that gets no processor at all must end some day, too.
    const ranMs = this.thread === undefined ? 0 : (cpuMsOf(this.thread) ?? passedMs);
    return Math.max(ranMs, passedMs / MOST_TIMES_LONGER);
  }
}

const SHORTEST_WAIT_MS = 10;
const MOST_TIMES_LONGER = 12;

function whatOf(reading: Reading): string {
  return reading.format === "config_diff" ? "config" : reading.limits.what;
}

/** How long two texts take to compare is another question than how long they are. */
function isQuick(reading: Reading, sizeBytes: number): boolean {
  return reading.format !== "config_diff" && Buffer.byteLength(reading.text) <= sizeBytes;
}
