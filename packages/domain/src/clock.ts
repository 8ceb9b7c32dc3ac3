/** Time, as an argument: so that what waits can be tested without waiting. */
export interface Clock {
  /** Milliseconds since 1970; may jump. */
  nowMs(): number;
  /** Milliseconds since some moment; never goes back. For measuring how long something took or stood still. */
  monotonicMs(): number;
  /** Resolves after `ms`; rejects with the signal's reason when it aborts before. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /**
   * Calls back once, in the very turn in which the time has passed. Returns what cancels it. Such a timer alone does not
   * keep the process running.
   */
  after(delayMs: number, action: () => void): () => void;
  /** Calls back once what has come in by now has been looked at, and before anything is waited for. */
  afterTurn(action: () => void): void;
}

/** The process's own clock. */
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
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  afterTurn(action) {
    setImmediate(action);
  },
};

/** Resolves after `ms` of a clock that only calls back; rejects with the signal's reason when it aborts before. */
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
