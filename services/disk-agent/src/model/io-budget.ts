import type { IoLimits } from "@diskmesh/domain";

export type IoDirection = "read" | "write";

/** Remaining budget of a rate. Negative after an operation that cost more than was left. */
interface Bucket {
  readonly left: number;
  readonly atMs: number;
}

/** Budget of a disk's I/O at a time, by direction. A direction without limits has no buckets. */
export interface IoBudget {
  readonly limits: IoLimits | undefined;
  readonly operations: Readonly<Partial<Record<IoDirection, Bucket>>>;
  readonly bytes: Readonly<Partial<Record<IoDirection, Bucket>>>;
}

/** Seconds whose budget an idle disk saves up without a burst. */
const DEFAULT_BURST_SECONDS = 0.1;

const KINDS = ["operations", "bytes"] as const;
const DIRECTIONS = ["read", "write"] as const;
const RATES = {
  operations: { read: "readIops", write: "writeIops" },
  bytes: { read: "readBytesPerSecond", write: "writeBytesPerSecond" },
} as const;

function rateOf(limits: IoLimits | undefined, kind: (typeof KINDS)[number], direction: IoDirection): number {
  return limits?.[RATES[kind][direction]] ?? 0;
}

function capacityOf(limits: IoLimits | undefined, rate: number): number {
  return rate * (limits?.burstSeconds || DEFAULT_BURST_SECONDS);
}

export const UNLIMITED: IoBudget = { limits: undefined, operations: {}, bytes: {} };

/** Returns the budget with other limits. What is spent stays spent; a rate that is limited anew begins full. */
export function limited(budget: IoBudget, limits: IoLimits | undefined, nowMs: number): IoBudget {
  const bucketsOf = (kind: (typeof KINDS)[number]) =>
    Object.fromEntries(
      DIRECTIONS.flatMap((direction) => {
        const rate = rateOf(limits, kind, direction);
        if (rate === 0) return [];
        const capacity = capacityOf(limits, rate);
        const before = refilled(budget, kind, direction, nowMs);
        return [[direction, { left: Math.min(before?.left ?? capacity, capacity), atMs: nowMs }]];
      }),
    );
  return { limits, operations: bucketsOf("operations"), bytes: bucketsOf("bytes") };
}

function refilled(
  { limits, ...budget }: IoBudget,
  kind: (typeof KINDS)[number],
  direction: IoDirection,
  nowMs: number,
): Bucket | undefined {
  const bucket = budget[kind][direction];
  if (bucket === undefined) return undefined;
  const rate = rateOf(limits, kind, direction);
  const earned = (rate * Math.max(0, nowMs - bucket.atMs)) / 1_000;
  return { left: Math.min(capacityOf(limits, rate), bucket.left + earned), atMs: nowMs };
}

export interface Spent {
  readonly budget: IoBudget;
  /** Milliseconds until the operation may begin; 0 when its cost was taken. */
  readonly waitMs: number;
}

/**
 * Takes the cost of one operation, or returns how long it must wait. An operation may begin while anything is left, so
 * that one larger than the whole budget is possible; the following operations wait for what it overdrew.
 */
export function spend(budget: IoBudget, direction: IoDirection, sizeBytes: number, nowMs: number): Spent {
  let next = budget;
  let waitMs = 0;
  for (const kind of KINDS) {
    const bucket = refilled(budget, kind, direction, nowMs);
    if (bucket === undefined) continue;
    if (bucket.left <= 0) waitMs = Math.max(waitMs, waitFor(bucket, rateOf(budget.limits, kind, direction)));
    const cost = kind === "bytes" ? sizeBytes : 1;
    next = { ...next, [kind]: { ...next[kind], [direction]: { ...bucket, left: bucket.left - cost } } };
  }
  return waitMs > 0 ? { budget, waitMs } : { budget: next, waitMs };
}

/** Returns the whole milliseconds until something is left. */
function waitFor({ left }: Bucket, rate: number): number {
  return Math.floor((-left * 1_000) / rate) + 1;
}
