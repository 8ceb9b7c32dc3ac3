import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "@diskmesh/domain";

/** Time as a tablet uses it. */
export type TabletClock = Pick<Clock, "monotonicMs" | "after" | "afterTurn">;

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
