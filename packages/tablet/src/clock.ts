/**
 * Time as a tablet uses it, injected so that a simulation can be its clock: with timers that act in the very turn in which
 * they are due.
 */
export interface TabletClock {
  /** Milliseconds since some moment; never goes back. */
  monotonicMs(): number;
  /** Calls back once when the time has passed. Returns what cancels it. */
  after(delayMs: number, action: () => void): () => void;
}

/** The process's own monotonic clock. A timer alone does not keep the process running. */
export const monotonicClock: TabletClock = {
  monotonicMs: () => performance.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Waits so long; rejects with the signal's reason as soon as that is aborted. */
export function sleep(clock: TabletClock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const onAbort = (): void => {
      cancel();
      reject(signal.reason);
    };
    const cancel = clock.after(delayMs, () => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
