/** Progress of a disk's move, as far as this leader knows. Kept in memory only. */
export interface MoveProgress {
  /** Progress of the present try; absent when none runs. */
  readonly copy?: CopyProgress | undefined;
  /** Cause of a wait; absent when none is known. */
  readonly waits?: string | undefined;
  /** True when the move waits for space. */
  readonly isShort?: boolean | undefined;
}

interface Point {
  readonly copiedBytes: number;
  /** Monotonic time in ms. */
  readonly atMs: number;
}

interface CopyProgress extends Point {
  readonly sessionNumber: number;
  readonly sizeBytes: number;
  /** Maximum rate in bytes per second; 0 for none. */
  readonly maxBytesPerSecond: number;
  /** First answer of the try: the rate is measured from it. */
  readonly first: Point;
}

/** Returns the progress of a copy after another answer. */
export function progressAfter(before: CopyProgress | undefined, now: Omit<CopyProgress, "first">): CopyProgress {
  const { sessionNumber, maxBytesPerSecond, copiedBytes, atMs } = now;
  // The rate is measured anew after its limit has changed.
  const isSame = before?.sessionNumber === sessionNumber && before.maxBytesPerSecond === maxBytesPerSecond;
  // A copy that goes on after an interruption repeats what was not durable.
  return { ...now, first: isSame && copiedBytes >= before.copiedBytes ? before.first : { copiedBytes, atMs } };
}

/** Returns the rate of a copy in bytes per second; 0 while it is not known. */
export function rateOf({ copiedBytes, atMs, first }: CopyProgress): number {
  const tookMs = atMs - first.atMs;
  return tookMs <= 0 ? 0 : Math.round(((copiedBytes - first.copiedBytes) * 1_000) / tookMs);
}

/** Returns the time in ms that a copy still takes at its rate; undefined while the rate is not known. */
export function leftMsOf(copy: CopyProgress): number | undefined {
  const rate = rateOf(copy);
  return rate === 0 ? undefined : Math.round(((copy.sizeBytes - copy.copiedBytes) * 1_000) / rate);
}
