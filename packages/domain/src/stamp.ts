/**
 * Fencing token that orders attach and detach requests (seed 004): lexicographically by tablet generation, then device
 * generation. Stamps of different tablets, or of different incarnations of one tablet, are not comparable. An agent
 * that obeys one incarnation refuses the stamps of every other.
 */
export interface Stamp {
  readonly tabletId: string;
  /** Incarnation of the tablet that gave the stamp. */
  readonly incarnation: string;
  readonly tabletGeneration: number;
  readonly deviceGeneration: number;
}

/**
 * Returns a negative number when `a` is older than `b`, 0 when equal, positive when newer. Both must be of the same
 * incarnation of one tablet.
 */
export function compareStamps(a: Stamp, b: Stamp): number {
  return a.tabletGeneration - b.tabletGeneration || a.deviceGeneration - b.deviceGeneration;
}

/** Formats a stamp for error messages; an error about an outdated order contains both stamps. */
export function formatStamp(stamp: Stamp): string {
  return `(tablet generation ${stamp.tabletGeneration}, device generation ${stamp.deviceGeneration})`;
}
