/** Difference of two machines' clocks in ms from which certificates, backups and logs mislead. Far more than a call's delay. */
export const MAX_CLOCK_SKEW_MS = 60_000;

/** Source of time, passed as an argument so that tests can advance it instead of waiting. */
export interface Clock {
  /** Milliseconds since 1970; may jump. */
  nowMs(): number;
  /** Milliseconds since an arbitrary moment; never decreases. Used to measure durations. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts before. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /**
   * Calls back once, in the turn in which the time has passed. Returns a function that cancels it. The timer does not
   * keep the process running.
   */
  after(delayMs: number, action: () => void): () => void;
  /** Calls back once after all pending input is processed, before the event loop waits. */
  afterTurn(action: () => void): void;
}

/** Clock of the operating system, for production. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  // Node's own promise timer creates an error on each abort, and most sleeps end by an abort.
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
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  afterTurn(action) {
    setImmediate(action);
  },
};

/** Resolves after `ms` of a clock that only has callbacks; rejects with the signal's reason when it aborts before. */
export function sleep(clock: Pick<Clock, "after">, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const abort = (): void => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.after(ms, () => {
      signal?.removeEventListener("abort", abort);
      resolve();
    });
    signal?.addEventListener("abort", abort, { once: true });
  });
}
