import type { Pending } from "../store/schema.js";

/** Maximum characters of a wait's message. The agent chooses the message, and the registry stores it with the order. */
const MAX_MESSAGE_LENGTH = 2_048;

/**
 * Maximum difference in ms between two reported start times of the same wait. They differ because answers take
 * different times to arrive.
 */
const SAME_SINCE_MS = 1_000;

/** Fields of a PENDING outcome. */
export interface Waiting {
  readonly message: string;
  /** Duration of the wait so far. */
  readonly pendingMs?: number;
  /** Operations that the host's operating system has not completed. */
  readonly inFlightOperations?: number;
}

/** Returns a PENDING outcome in its stored form; returns `before` when nothing changed. */
export function pendingOf(outcome: Waiting, before: Pending | undefined, nowMs: number): Pending {
  const { pendingMs = 0, inFlightOperations = 0 } = outcome;
  const message = outcome.message.slice(0, MAX_MESSAGE_LENGTH);
  // Not below 0, because an agent may report any duration and the result must be a valid date.
  const sinceMs = Math.max(0, nowMs - pendingMs);
  const isSame =
    before !== undefined &&
    before.message === message &&
    before.inFlightOperations === inFlightOperations &&
    Math.abs(before.sinceMs - sinceMs) <= SAME_SINCE_MS;
  return isSame ? before : { message, sinceMs, inFlightOperations };
}

/** Formats the wait for people. */
export function pendingText({ message, sinceMs }: Pending, nowMs: number): string {
  return `${message}, for ${Math.max(0, Math.round((nowMs - sinceMs) / 1_000))} s`;
}
