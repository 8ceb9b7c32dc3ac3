import { setImmediate as nextTurn } from "node:timers/promises";
/**
 * Time as a tablet uses it, injected so that a simulation can be its clock: with timers that act in the very turn in which
 * they are due.
 */
export interface TabletClock {
  /** Milliseconds since some moment; never goes back. */
  monotonicMs(): number;
  /** Calls back once when the time has passed. Returns what cancels it. */
  after(delayMs: number, action: () => void): () => void;
  /** Calls back once what has come in by now has been looked at, and before anything is waited for. */
  afterTurn(action: () => void): void;
}

/** The process's own monotonic clock. A timer alone does not keep the process running. */
export const monotonicClock: TabletClock = {
  monotonicMs: () => performance.now(),
  after(delayMs, action) {
    const timer = setTimeout(action, delayMs);
    timer.unref();
    return () => clearTimeout(timer);
  },
  afterTurn(action) {
    setImmediate(action);
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

/** An answer that is there may take so many turns of the event loop to come through a driver. */
const LATE_ANSWER_TURNS = 5;

/** Resolves when answers that are there have come. */
export async function lateAnswers(): Promise<void> {
  for (let turn = 0; turn < LATE_ANSWER_TURNS; turn++) await nextTurn();
}
