import type { Pending } from "../store/schema.js";

/** An agent's text; it is kept while the order is. */
const MAX_MESSAGE_LENGTH = 2_048;

/** By which the same wait may seem to begin sooner or later: how long an answer is on its way differs. */
const SAME_SINCE_MS = 1_000;

/** What a PENDING outcome says. */
export interface Waiting {
  readonly message: string;
  /** For how long. */
  readonly pendingMs?: number;
  /** Of the host's operating system. */
  readonly inFlightOperations?: number;
}

/** What a PENDING outcome says, as it is kept; `before` when that says the same. */
export function pendingOf(outcome: Waiting, before: Pending | undefined, nowMs: number): Pending {
  const { pendingMs = 0, inFlightOperations = 0 } = outcome;
  const message = outcome.message.slice(0, MAX_MESSAGE_LENGTH);
  // An agent may say what it likes, and a time must be one that can be shown.
  const sinceMs = Math.max(0, nowMs - pendingMs);
  const isSame =
    before !== undefined &&
    before.message === message &&
    before.inFlightOperations === inFlightOperations &&
    Math.abs(before.sinceMs - sinceMs) <= SAME_SINCE_MS;
  return isSame ? before : { message, sinceMs, inFlightOperations };
}

/** For people. */
export function pendingText({ message, sinceMs }: Pending, nowMs: number): string {
  return `${message}, for ${Math.max(0, Math.round((nowMs - sinceMs) / 1_000))} s`;
}
