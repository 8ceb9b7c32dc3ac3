import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "@diskmesh/domain";

export { sleep } from "@diskmesh/domain";

/** Time as a tablet uses it. */
export type TabletClock = Pick<Clock, "monotonicMs" | "after" | "afterTurn">;

/** An answer that is there may take so many turns of the event loop to come through a driver. */
const LATE_ANSWER_TURNS = 5;

/** Resolves when answers that are there have come. */
export async function lateAnswers(): Promise<void> {
  for (let turn = 0; turn < LATE_ANSWER_TURNS; turn++) await nextTurn();
}
