import { DomainError, ResourceExhaustedError, TimeoutError } from "./errors.js";

export interface BackoffLimits {
  readonly minDelayMs: number;
  readonly maxDelayMs: number;
}

/**
 * How long to wait before attempt number `attempts + 1`: doubles from the minimum to the maximum, with half of it
 * random so that many that failed together do not come back together. `random` is in [0, 1).
 */
export function backoffMs(attempts: number, limits: BackoffLimits, random: number): number {
  const full = Math.min(limits.maxDelayMs, limits.minDelayMs * 2 ** Math.min(attempts, 30));
  return Math.round(full / 2 + (full / 2) * random);
}

/**
 * How long to wait after an error before attempt number `attempts + 1`. Whoever was refused for being one of too many,
 * or was not served in time, comes back at any moment within the longest delay: all of them together would fill the
 * server again.
 */
export function retryDelayMs(error: unknown, attempts: number, limits: BackoffLimits, random: number): number {
  const atLeastMs = error instanceof DomainError ? (error.retryAfterMs ?? 0) : 0;
  if (error instanceof ResourceExhaustedError || error instanceof TimeoutError)
    return Math.max(atLeastMs, Math.round(limits.maxDelayMs * random));
  return Math.max(atLeastMs, backoffMs(attempts, limits, random));
}
