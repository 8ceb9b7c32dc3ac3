/** Steadiness of a host: one that comes and goes gets no copies, for a time that doubles. */
export interface Steadiness {
  /** Time since which the host is heard without a break; undefined while it is silent. */
  readonly heardSinceMs?: number | undefined;
  /** Time for which the host must be heard before it gets copies again. */
  readonly provesForMs: number;
}

export interface SteadinessLimits {
  readonly shortestMs: number;
  readonly longestMs: number;
}

export const STEADINESS_LIMITS: SteadinessLimits = { shortestMs: 60_000, longestMs: 3_600_000 };

/** Returns the steadiness of a host that was never silent. */
export const steady = (nowMs: number): Steadiness => ({ heardSinceMs: nowMs, provesForMs: 0 });

/** Notes that the host is silent: each silence that comes before the last one is proven over doubles the time. */
export function noteSilent(was: Steadiness, nowMs: number, { shortestMs, longestMs }: SteadinessLimits): Steadiness {
  if (was.heardSinceMs === undefined) return was;
  const heardForMs = nowMs - was.heardSinceMs;
  const isRelapse = was.provesForMs > 0 && heardForMs < was.provesForMs + longestMs;
  return { provesForMs: isRelapse ? Math.min(was.provesForMs * 2, longestMs) : shortestMs };
}

export function noteHeard(was: Steadiness, nowMs: number): Steadiness {
  return was.heardSinceMs === undefined ? { ...was, heardSinceMs: nowMs } : was;
}

/** Returns whether the host may get copies. */
export function isSteady({ heardSinceMs, provesForMs }: Steadiness, nowMs: number): boolean {
  return heardSinceMs !== undefined && nowMs - heardSinceMs >= provesForMs;
}

const DAY_MS = 86_400_000;
/** Drops of a device within a day from which they are its own trouble. */
const DROPS_OF_TROUBLE = 3;

/** Returns the drops of a device within the last day, with one at `nowMs`. */
export function withDrop(dropsMs: readonly number[], nowMs: number): readonly number[] {
  return [...dropsMs.filter((atMs) => nowMs - atMs < DAY_MS), nowMs].slice(-DROPS_OF_TROUBLE);
}

/** Returns whether the device was dropped so often that it gets no more copies until an operator looks at it. */
export function isTrouble(dropsMs: readonly number[], nowMs: number): boolean {
  return dropsMs.filter((atMs) => nowMs - atMs < DAY_MS).length >= DROPS_OF_TROUBLE;
}
