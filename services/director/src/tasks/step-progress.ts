import type { TaskEvent } from "./task-event.js";

/** The first and the latest progress that a step of a live task has told. */
export interface StepProgress {
  readonly first: Point;
  readonly latest: Point;
  readonly text: string;
}

interface Point {
  readonly percent: number;
  readonly atMs: number;
}

/** Returns the progress after an event; undefined once the step has ended. */
export function progressAfter(before: StepProgress | undefined, event: TaskEvent): StepProgress | undefined {
  const { state, percent = 0, timeMs: atMs, message: text } = event;
  if (state !== "in_progress") return undefined;
  const latest = { percent, atMs };
  return { first: before?.first ?? latest, latest, text };
}

/** Returns the time that the rest of the step takes at the rate so far; undefined while no rate is known. */
export function leftMs({ first, latest }: StepProgress, nowMs: number): number | undefined {
  const percents = latest.percent - first.percent;
  if (percents <= 0) return undefined;
  const restMs = ((latest.atMs - first.atMs) * (100 - latest.percent)) / percents;
  return Math.max(0, restMs - (nowMs - latest.atMs));
}

/** Returns a progress in a line, such as "42 %: writes the second bank". */
export function progressText({ latest, text }: StepProgress): string {
  return `${latest.percent} %${text === "" ? "" : `: ${text}`}`;
}
