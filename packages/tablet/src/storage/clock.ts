import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "@diskmesh/domain";

export { sleep } from "@diskmesh/domain";

export type TabletClock = Pick<Clock, "nowMs" | "monotonicMs" | "after" | "afterTurn">;

/** Number of event loop turns that a received answer may take to pass through a database driver. */
const LATE_ANSWER_TURNS = 5;

/** Resolves once answers that have arrived at the socket were delivered. */
export async function lateAnswers(): Promise<void> {
  for (let turn = 0; turn < LATE_ANSWER_TURNS; turn++) await nextTurn();
}
