import { Worker } from "node:worker_threads";
import { InvalidArgumentError, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import { EitherSignal, Slots } from "@diskmesh/service";
import type { Format, Reading, ReadingOf, Results } from "./formats.js";
import type { WorkerAnswer } from "./worker.js";

/** Limits of the reading of texts. */
export interface YamlReaderOptions {
  /** Texts that wait for the worker; more are refused. */
  readonly maxWaiting?: number;
  /** The time limit of a new text. */
  readonly timeoutMs?: number;
  readonly maxMemoryMib?: number;
}

/** How one text is read. */
export interface ReadOptions {
  /** The text was accepted once: it is never refused for lack of room, and may take longer. */
  readonly stored?: boolean;
  readonly signal?: AbortSignal;
}

const WORKER_FILE = new URL("./worker.js", import.meta.url);
const MAX_WAITING = 100;
/** A mebibyte of an ordinary manifest takes 1.5 s of a processor, which a busy machine gives late. */
const TIMEOUT_MS = 30_000;
/** Longer, since a stored text that cannot be read stops whoever needs it. */
const STORED_TIMEOUT_MS = 60_000;
const MAX_MEMORY_MIB = 512;

/** The field of a request that holds a text to be read. */
const FIELD_OF: Readonly<Record<Format, string>> = {
  cloud_config: "content",
  cpi_config: "content",
  resurrection_config: "content",
  plain_config: "content",
  config_diff: "content",
  manifest: "manifest",
  stemcell_manifest: "chunk",
};

/**
 * Reads YAML from outside in one worker thread, a text at a time, so that the event loop never waits for a text. A text
 * that takes too much time or memory ends the worker; the next text gets a new one.
 */
export class YamlReader {
  readonly #maxWaiting: number;
  readonly #timeoutMs: number;
  readonly #maxMemoryMib: number;
  readonly #closing = new AbortController();
  readonly #turns = new Slots(1);
  #worker: Worker | undefined;
  /** The text that the worker reads. */
  #pending:
    | { readonly resolve: (answer: WorkerAnswer) => void; readonly reject: (reason: unknown) => void }
    | undefined;

  constructor({
    maxWaiting = MAX_WAITING,
    timeoutMs = TIMEOUT_MS,
    maxMemoryMib = MAX_MEMORY_MIB,
  }: YamlReaderOptions = {}) {
    this.#maxWaiting = maxWaiting;
    this.#timeoutMs = timeoutMs;
    this.#maxMemoryMib = maxMemoryMib;
  }

  /**
   * Throws InvalidArgumentError for a text that is malformed or exceeds a limit, ResourceExhaustedError when too many
   * wait, and the signal's reason once it aborts.
   */
  async read<F extends Format>(reading: ReadingOf<F>, { stored, signal }: ReadOptions = {}): Promise<Results[F]> {
    using stop = new EitherSignal(this.#closing.signal, signal);
    stop.signal.throwIfAborted();
    if (!stored && this.#turns.waiting >= this.#maxWaiting)
      throw new ResourceExhaustedError(`${this.#maxWaiting} texts wait to be read already: try again later`, {
        reason: "QUEUE_FULL",
        retryAfterMs: 1_000,
      });
    const leave = await this.#turns.acquire(stop.signal);
    if (stop.signal.aborted) leave();
    stop.signal.throwIfAborted();
    const left = new Promise<never>((_, reject) => {
      stop.signal.addEventListener("abort", () => reject(stop.signal.reason), { once: true });
    });
    // Its turn lasts until the worker is free, even when the caller leaves.
    const answer = this.#ask(reading, stored ? STORED_TIMEOUT_MS : this.#timeoutMs).finally(leave);
    return (await Promise.race([answer, left])) as Results[F];
  }

  /** Ends the worker. Whoever waits gets UnavailableError. */
  close(): void {
    const stopped = new UnavailableError("the director stops");
    this.#closing.abort(stopped);
    this.#end(stopped);
  }

  async #ask(reading: Reading, timeoutMs: number): Promise<unknown> {
    const what = `the ${reading.format === "config_diff" ? "config" : reading.limits.what}`;
    const refused = (why: string) => new InvalidArgumentError(why, { about: { field: FIELD_OF[reading.format] } });
    const tooSlow = `${what} takes longer to read than ${timeoutMs} ms: make it simpler`;
    const timer = setTimeout(() => this.#end(refused(tooSlow)), timeoutMs);
    try {
      const answer = await new Promise<WorkerAnswer>((resolve, reject) => {
        this.#pending = { resolve, reject };
        this.#worker ??= this.#start();
        this.#worker.postMessage(reading);
      });
      if ("refused" in answer) throw refused(answer.refused);
      return JSON.parse(answer.json);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ERR_WORKER_OUT_OF_MEMORY") throw error;
      throw refused(`${what} takes more memory to read than ${this.#maxMemoryMib} MiB: make it simpler`);
    } finally {
      clearTimeout(timer);
      this.#pending = undefined;
    }
  }

  #start(): Worker {
    const worker = new Worker(WORKER_FILE, {
      // Neither the tracing nor the secrets that the process was started with.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: this.#maxMemoryMib },
    });
    // The timer of a text keeps the process alive while that text is read.
    worker.unref();
    return worker
      .on("message", (answer: WorkerAnswer) => {
        if (this.#worker === worker) this.#pending?.resolve(answer);
      })
      .on("error", (error) => {
        if (this.#worker === worker) this.#end(error);
      })
      .on("exit", (code) => {
        if (this.#worker === worker) this.#end(new Error(`the thread that reads YAML ended with ${code}`));
      });
  }

  /** The next text gets a new worker. */
  #end(reason: unknown): void {
    void this.#worker?.terminate();
    this.#worker = undefined;
    this.#pending?.reject(reason);
  }
}
