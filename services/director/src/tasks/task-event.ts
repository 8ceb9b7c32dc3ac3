import { visible } from "@diskmesh/domain";
import { CODES } from "./bosh-codes.js";

export interface TaskEvent {
  readonly timeMs: number;
  /** The step's group, e.g. "Attaching disk"; WARNING; or ERROR for the failure of the whole task. */
  readonly stage: string;
  /** The subject of the stage, e.g. the instance group. */
  readonly tags: readonly string[];
  /** The number of steps that the stage will have; 0 when unknown. */
  readonly total: number;
  /** The step, e.g. the disk's name. */
  readonly task: string;
  /** The number of the step within its stage, from 1. */
  readonly index: number;
  readonly state: "started" | "in_progress" | "finished" | "failed";
  /** Percent of the step that is done; undefined in other states than in_progress. */
  readonly percent?: number | undefined;
  readonly message: string;
}

/** Stages of events about the whole task rather than a step. */
export const WARNING = "Warning";
export const ERROR = "Error";

export const MAX_MESSAGE_LENGTH = 4_000;

/** Returns the event as a line in BOSH's format. BOSH's clients ignore the fields that they do not know. */
export function encodeEvent(event: TaskEvent, errorCode: number = CODES.any): string {
  const { timeMs, stage, tags, total, index, state } = event;
  const time = Math.floor(timeMs / 1_000);
  // Clients print both to a terminal.
  const [task, message] = [visible(event.task), cut(visible(event.message))];
  if (stage === WARNING) return JSON.stringify({ time, type: "warning", message, time_ms: timeMs });
  if (stage === ERROR) return JSON.stringify({ time, error: { code: errorCode, message }, time_ms: timeMs });
  const progress = state === "started" ? 0 : state === "in_progress" ? (event.percent ?? 0) : 100;
  const data = message === "" ? {} : { [state === "failed" ? "error" : "status"]: message };
  return JSON.stringify({ time, stage, tags, total, task, index, state, progress, data, time_ms: timeMs });
}

function cut(message: string): string {
  return message.length > MAX_MESSAGE_LENGTH ? `${message.slice(0, MAX_MESSAGE_LENGTH)}...` : message;
}

interface StoredEvent extends Partial<Omit<TaskEvent, "timeMs" | "percent">> {
  readonly progress?: number;
  readonly time_ms: number;
  readonly type?: string;
  readonly error?: { readonly message: string };
  readonly data?: { readonly error?: string; readonly status?: string };
}

/** Parses a stored line. */
export function decodeEvent(line: string): TaskEvent {
  const stored = JSON.parse(line) as StoredEvent;
  const { tags = [], total = 0, task = "", index = 0, type, error, data } = stored;
  const step = { timeMs: stored.time_ms, tags, total, task, index };
  if (error !== undefined) return { ...step, stage: ERROR, state: "failed", message: error.message };
  const { stage = "", state = "finished", message = data?.error ?? data?.status ?? "" } = stored;
  if (state === "in_progress") return { ...step, stage, state, message, percent: stored.progress };
  return { ...step, stage: type === "warning" ? WARNING : stage, state, message };
}
