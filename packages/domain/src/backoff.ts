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
