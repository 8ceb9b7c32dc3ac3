/**
 * Stamps order attach and detach requests (seed 004): lexicographically by tablet generation, then device generation.
 * Stamps of different tablets, or of different incarnations of one, do not compare; a holder of the one's stamps refuses
 * the other's.
 */
export interface Stamp {
  readonly tabletId: string;
  /** Which life of the tablet gave it. */
  readonly incarnation: string;
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
}

/** Negative when `a` is older than `b`, 0 when equal, positive when newer. Both are of the same incarnation of one tablet. */
export function compareStamps(a: Stamp, b: Stamp): number {
  return a.tabletGeneration - b.tabletGeneration || a.deviceGeneration - b.deviceGeneration;
}

/** For error messages: an outdated order says both stamps. */
export function formatStamp(stamp: Stamp): string {
  return `(tablet generation ${stamp.tabletGeneration}, device generation ${stamp.deviceGeneration})`;
}
