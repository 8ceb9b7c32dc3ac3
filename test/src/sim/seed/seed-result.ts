/** Result of one seed. */
export interface SeedResult {
  readonly seed: number;
  /** Hash of all lines of the trace. */
  readonly hash: string;
  readonly simulatedMs: number;
  /** Broken promise; undefined for none. */
  readonly violation: string | undefined;
  readonly lines: readonly string[];
  /** How often something happened that a run is about, by its words. */
  readonly done: Readonly<Record<string, number>>;
}

/** Returns the sums of both. */
export function sumOf(
  one: Readonly<Record<string, number>>,
  other: Readonly<Record<string, number>>,
): Readonly<Record<string, number>> {
  const sum = { ...one };
  for (const [what, count] of Object.entries(other)) sum[what] = (sum[what] ?? 0) + count;
  return sum;
}
