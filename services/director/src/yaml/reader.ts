import { Worker } from "node:worker_threads";
import { InvalidArgumentError, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import { EitherSignal, Slots } from "@diskmesh/service";
import type { Format, Reading, ReadingOf, Results } from "./formats.js";
import type { WorkerAnswer } from "./worker.js";

export interface YamlReaderOptions {
  /** Maximum texts that wait for the worker; more are refused. */
  readonly maxWaiting?: number;
  /** Time limit of a new text. */
  readonly timeoutMs?: number;
  readonly maxMemoryMib?: number;
}

export interface ReadOptions {
  /** Set for a text accepted before. It is never refused for lack of queue space, and has a longer time limit. */
  readonly stored?: boolean;
  readonly signal?: AbortSignal;
}

const WORKER_FILE = new URL("./worker.js", import.meta.url);
const MAX_WAITING = 100;
/** A typical manifest of 1 MiB takes 1.5 s of CPU; the rest is for a busy machine. */
const TIMEOUT_MS = 30_000;
/** Longer, because an unreadable stored text blocks the work that needs it. */
const STORED_TIMEOUT_MS = 60_000;
const MAX_MEMORY_MIB = 512;

/** The request field that contains the text, named in errors. */
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
 * Parses external YAML in a worker thread, a text at a time, so that parsing never blocks the event loop. A text that
 * exceeds the time or memory limit terminates the worker; the next text starts a new worker.
 */
export class YamlReader {
  readonly #maxWaiting: number;
  readonly #timeoutMs: number;
  readonly #maxMemoryMib: number;
  readonly #closing = new AbortController();
  readonly #turns = new Slots(1);
  #worker: Worker | undefined;
  /** The text in the worker. */
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
   * Returns the parsed text. Throws InvalidArgumentError for a malformed or oversized text, ResourceExhaustedError when
   * too many texts wait, and the signal's reason when it aborts.
   */
  async read<F extends Format>(reading: ReadingOf<F>, { stored, signal }: ReadOptions = {}): Promise<Results[F]> {
    using stop = new EitherSignal(this.#closing.signal, signal);
    stop.signal.throwIfAborted();
    if (!stored && this.#turns.waiting >= this.#maxWaiting)
      throw new ResourceExhaustedError(`${this.#maxWaiting} YAML texts already wait to be read: try again later`, {
        reason: "QUEUE_FULL",
        retryAfterMs: 1_000,
      });
    const leave = await this.#turns.acquire(stop.signal);
    if (stop.signal.aborted) leave();
    stop.signal.throwIfAborted();
    const left = new Promise<never>((_, reject) => {
      stop.signal.addEventListener("abort", () => reject(stop.signal.reason), { once: true });
    });
    // The slot is held until the worker is free, even when the caller leaves.
    const answer = this.#ask(reading, stored ? STORED_TIMEOUT_MS : this.#timeoutMs).finally(leave);
    return (await Promise.race([answer, left])) as Results[F];
  }

  /** Terminates the worker. Waiting callers get UnavailableError. */
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
      // The worker gets neither the process's tracing options nor its secrets.
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: this.#maxMemoryMib },
    });
    // Unreferenced; the timer of a text keeps the process alive while the text is parsed.
    worker.unref();
    return worker
      .on("message", (answer: WorkerAnswer) => {
        if (this.#worker === worker) this.#pending?.resolve(answer);
      })
      .on("error", (error) => {
        if (this.#worker === worker) this.#end(error);
      })
      .on("exit", (code) => {
        if (this.#worker === worker) this.#end(new Error(`the YAML worker thread ended with exit code ${code}`));
      });
  }

  /** Terminates the worker; the next text starts a new worker. */
  #end(reason: unknown): void {
    void this.#worker?.terminate();
    this.#worker = undefined;
    this.#pending?.reject(reason);
  }
}
