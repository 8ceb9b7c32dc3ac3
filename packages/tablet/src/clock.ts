import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "@diskmesh/domain";

export { sleep } from "@diskmesh/domain";

/** Clock functions that a tablet uses. */
export type TabletClock = Pick<Clock, "monotonicMs" | "after" | "afterTurn">;

/** Turns of the event loop that an arrived answer may take to pass through a driver. */
const LATE_ANSWER_TURNS = 5;

/** Resolves when answers that have arrived were delivered. */
export async function lateAnswers(): Promise<void> {
  for (let turn = 0; turn < LATE_ANSWER_TURNS; turn++) await nextTurn();
}
