import { DomainError, ResourceExhaustedError, TimeoutError } from "./errors.js";

export interface BackoffLimits {
  readonly minDelayMs: number;
  readonly maxDelayMs: number;
}

/**
 * Returns the delay before attempt number `attempts + 1`. Doubles from the minimum to the maximum; half of it is
 * random, so that calls that failed together do not retry together. `random` is in [0, 1).
 */
export function backoffMs(attempts: number, limits: BackoffLimits, random = Math.random()): number {
  const full = Math.min(limits.maxDelayMs, limits.minDelayMs * 2 ** Math.min(attempts, 30));
  return Math.round(full / 2 + (full / 2) * random);
}

/**
 * Returns the delay after an error before attempt number `attempts + 1`. After a refusal because of a limit, and after
 * a timeout, the delay is random up to the maximum, because simultaneous retries would overload the server again.
 */
export function retryDelayMs(error: unknown, attempts: number, limits: BackoffLimits, random: number): number {
  const atLeastMs = error instanceof DomainError ? (error.retryAfterMs ?? 0) : 0;
  if (error instanceof ResourceExhaustedError || error instanceof TimeoutError)
    return Math.max(atLeastMs, Math.round(limits.maxDelayMs * random));
  return Math.max(atLeastMs, backoffMs(attempts, limits, random));
}
