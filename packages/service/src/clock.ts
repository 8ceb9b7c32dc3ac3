/** Time, as an argument: so that what waits can be tested without waiting. */
export interface Clock {
  /** Milliseconds since 1970; may jump. */
  nowMs(): number;
  /** Milliseconds since some moment; never goes back. For measuring how long something took or stood still. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts before. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  // Node's own promised timer makes an error of each abort, and most sleeps are ended by one.
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal?.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", onAbort);
        resolve();
      }, ms);
      signal?.addEventListener("abort", onAbort, { once: true });
    }),
};

interface Sleeper {
  readonly wakeAtMs: number;
  wake(): void;
}

/** A clock that stands still until it is told to advance, for tests and simulations. */
export class ManualClock implements Clock {
  #elapsedMs = 0;
  #sleepers: Sleeper[] = [];

  constructor(private readonly startMs = 0) {}

  nowMs(): number {
    return this.startMs + this.#elapsedMs;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const abort = (): void => {
        this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
        reject(signal?.reason);
      };
      const sleeper: Sleeper = {
        wakeAtMs: this.#elapsedMs + ms,
        wake: () => {
          signal?.removeEventListener("abort", abort);
          resolve();
        },
      };
      signal?.addEventListener("abort", abort, { once: true });
      this.#sleepers.push(sleeper);
    });
  }

  /** How many sleep now. */
  get sleepers(): number {
    return this.#sleepers.length;
  }

  /** Lets time pass, waking sleepers in the order of their times; what they start runs between the steps. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#elapsedMs + ms;
    for (;;) {
      // Setting a macrotask apart lets everything that was woken run to its next wait.
      await new Promise((resolve) => setImmediate(resolve));
      const [next] = this.#sleepers.toSorted((a, b) => a.wakeAtMs - b.wakeAtMs);
      if (!next || next.wakeAtMs > untilMs) break;
      this.#elapsedMs = Math.max(this.#elapsedMs, next.wakeAtMs);
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      next.wake();
    }
    this.#elapsedMs = untilMs;
  }
}
