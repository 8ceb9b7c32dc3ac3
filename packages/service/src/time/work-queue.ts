import { setMaxListeners } from "node:events";
import type { Clock } from "@diskmesh/domain";
import { type BackoffLimits, backoffMs, CancelledError, DomainError } from "@diskmesh/domain";
import { type Context, context, ROOT_CONTEXT, trace } from "@opentelemetry/api";

/** Result of a run: nothing left to do, or a time after which the key runs again. */
export type WorkResult = "done" | { readonly retryAfterMs: number };

export interface WorkFailure {
  readonly queue: string;
  readonly key: string;
  /** Number of consecutive failed runs, including this one. */
  readonly attempts: number;
  readonly retryInMs: number;
  readonly error: unknown;
}

export interface WorkQueueOptions {
  /** Name of the queue in log lines. */
  readonly name: string;
  /** Maximum keys processed at once. */
  readonly concurrency: number;
  readonly backoff: BackoffLimits;
  readonly clock: Clock;
  /** In [0, 1), for jitter; Math.random by default. */
  readonly random?: () => number;
  /** Reconciles one key: changes the actual state toward the desired one. A throw causes a retry. */
  readonly process: (key: string, signal: AbortSignal) => Promise<WorkResult>;
  readonly onFailure?: (failure: WorkFailure) => void;
}

interface RunningEntry {
  readonly state: "running";
  attempts: number;
  /** True when the key was enqueued again after the run began. */
  again: boolean;
  /** Delay of the next run. Undefined when no next run is due. */
  retryInMs: number | undefined;
}

type Entry =
  | { readonly state: "ready"; readonly attempts: number }
  | { readonly state: "waiting"; readonly attempts: number; readonly wait: AbortController; readonly dueAtMs: number }
  | RunningEntry;

/**
 * A level-triggered queue of keys. Each run reads the key's current state, so enqueueing a key twice equals enqueueing
 * it once.
 *
 * - One run per key at a time; a key enqueued during its run runs once more afterwards.
 * - A run that throws is retried after a backoff that grows with each consecutive failure, or later if the error says
 * so.
 * - Enqueueing a waiting key runs it at once, because its state changed. Its failure count stays.
 */
export class WorkQueue {
  readonly #entries = new Map<string, Entry>();
  readonly #ready: string[] = [];
  readonly #runs = new Set<Promise<void>>();
  /** Trace context of the next run, by key: that of the last traced call that enqueued the key. */
  readonly #traces = new Map<string, Context>();
  readonly #closing = new AbortController();

  constructor(private readonly options: WorkQueueOptions) {
    // Each run adds a listener to this signal, so many listeners are no leak.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Number of keys in each state. */
  get counts(): { readonly ready: number; readonly running: number; readonly waiting: number } {
    const { size: running } = this.#runs;
    const ready = this.#ready.length;
    return { ready, running, waiting: this.#entries.size - running - ready };
  }

  /** Returns the monotonic time of a waiting key's next run; undefined when it does not wait. */
  dueAtMs(key: string): number | undefined {
    const entry = this.#entries.get(key);
    return entry?.state === "waiting" ? entry.dueAtMs : undefined;
  }

  /** Enqueues the key. Has no effect after `close`. */
  enqueue(key: string): void {
    if (this.#closing.signal.aborted) return;
    const asked = context.active();
    if (trace.getSpanContext(asked) !== undefined) this.#traces.set(key, asked);
    const entry = this.#entries.get(key);
    if (entry?.state === "ready") return;
    if (entry?.state === "running") {
      entry.again = true;
      return;
    }
    entry?.wait.abort();
    this.#makeReady(key, entry?.attempts ?? 0);
  }

  /** Aborts the running runs, waits until they have ended, and forgets all keys. */
  async close(): Promise<void> {
    this.#closing.abort(new CancelledError(`the queue ${this.options.name} is closing`));
    this.#ready.length = 0;
    this.#traces.clear();
    await Promise.all(this.#runs);
    for (const entry of this.#entries.values()) if (entry.state === "waiting") entry.wait.abort();
    this.#entries.clear();
  }

  #makeReady(key: string, attempts: number): void {
    this.#entries.set(key, { state: "ready", attempts });
    this.#ready.push(key);
    this.#startRuns();
  }

  #startRuns(): void {
    while (this.#runs.size < this.options.concurrency) {
      const key = this.#ready.shift();
      if (key === undefined) return;
      const attempts = this.#entries.get(key)?.attempts ?? 0;
      const entry: RunningEntry = { state: "running", attempts, again: false, retryInMs: undefined };
      this.#entries.set(key, entry);
      const run = this.#run(key, entry).then(() => {
        this.#runs.delete(run);
        if (!this.#closing.signal.aborted) this.#settle(key, entry);
        this.#startRuns();
      });
      this.#runs.add(run);
    }
  }

  async #run(key: string, entry: RunningEntry): Promise<void> {
    try {
      // Deferred, so that the caller of enqueue() does not run the key itself.
      await Promise.resolve();
      if (this.#closing.signal.aborted) return;
      // From here on the run reads the key's state, so enqueues up to here need no further run.
      entry.again = false;
      // The key's own trace is used, because otherwise the run would belong to the trace of the run that ended before
      // it.
      const traced = this.#traces.get(key) ?? ROOT_CONTEXT;
      this.#traces.delete(key);
      const result = await context.with(traced, () => this.options.process(key, this.#closing.signal));
      entry.attempts = 0;
      entry.retryInMs = result === "done" ? undefined : result.retryAfterMs;
    } catch (error) {
      if (this.#closing.signal.aborted) return;
      entry.retryInMs = this.#delayOf(error, entry.attempts);
      entry.attempts += 1;
      // A failed run may have read nothing, so its repetition also covers everything enqueued meanwhile.
      entry.again = false;
      this.#report({ queue: this.options.name, key, attempts: entry.attempts, retryInMs: entry.retryInMs, error });
    }
  }

  #delayOf(error: unknown, attempts: number): number {
    const delayMs = backoffMs(attempts, this.options.backoff, this.options.random?.());
    return error instanceof DomainError ? Math.max(delayMs, error.retryAfterMs ?? 0) : delayMs;
  }

  #settle(key: string, entry: RunningEntry): void {
    if (entry.again) this.#makeReady(key, entry.attempts);
    else if (entry.retryInMs === undefined) this.#entries.delete(key);
    else void this.#wait(key, entry.attempts, entry.retryInMs);
  }

  async #wait(key: string, attempts: number, delayMs: number): Promise<void> {
    const wait = new AbortController();
    const dueAtMs = this.options.clock.monotonicMs() + delayMs;
    this.#entries.set(key, { state: "waiting", attempts, wait, dueAtMs });
    try {
      await this.options.clock.sleep(delayMs, wait.signal);
    } catch (error) {
      if (wait.signal.aborted) return;
      throw error;
    }
    // enqueue and close abort the wait. In the turn in which the sleep has ended, the abort no longer rejects the
    // sleep.
    if (!wait.signal.aborted) this.#makeReady(key, attempts);
  }

  #report(failure: WorkFailure): void {
    try {
      this.options.onFailure?.(failure);
    } catch {
      // A failing log must not stop the work.
    }
  }
}
