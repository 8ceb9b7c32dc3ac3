import { readdirSync, readFileSync } from "node:fs";

/** A measured value, with a reference value (the floor) from the same run. */
export interface Measurement {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  /**
   * Reference value in the same unit: the best value that the machine can reach, or the highest one that is allowed.
   */
  readonly floor: number;
  /** Description of the floor. */
  readonly floorOf: string;
  /** value / floor. */
  readonly ratio: number;
  /** Decimals of the ratio; 2 by default. */
  readonly digits?: number;
  /** Allowed range of the ratio; undefined for none. */
  readonly budget: { readonly atLeast: number } | { readonly atMost: number } | undefined;
}

export function measurement(fields: Omit<Measurement, "ratio">): Measurement {
  return { ...fields, ratio: fields.value / fields.floor };
}

export function withinBudget({ ratio, budget }: Measurement): boolean {
  if (budget === undefined) return true;
  return "atLeast" in budget ? ratio >= budget.atLeast : ratio <= budget.atMost;
}

export interface Load {
  readonly concurrency: number;
  readonly durationMs: number;
  /** Time in ms before counting starts, in which connections are opened and code is compiled. */
  readonly warmupMs: number;
}

/** Calls `operation` repeatedly from `concurrency` callers. Returns the completed calls per second. */
export async function ratePerSecond(load: Load, operation: (index: number) => Promise<unknown>): Promise<number> {
  let index = 0;
  let counted = 0;
  const startedAt = performance.now();
  const countFrom = startedAt + load.warmupMs;
  const until = countFrom + load.durationMs;
  const caller = async () => {
    while (performance.now() < until) {
      await operation(index++);
      const now = performance.now();
      if (now >= countFrom && now < until) counted++;
    }
  };
  await Promise.all(Array.from({ length: load.concurrency }, caller));
  return counted / (load.durationMs / 1000);
}

/** Calls `operation` once for each of `count` indexes, from `concurrency` callers. Returns the calls per second. */
export async function drainRatePerSecond(
  load: { readonly concurrency: number; readonly count: number },
  operation: (index: number) => Promise<unknown>,
): Promise<number> {
  let index = 0;
  const startedAt = performance.now();
  const caller = async () => {
    while (index < load.count) await operation(index++);
  };
  await Promise.all(Array.from({ length: load.concurrency }, caller));
  return load.count / ((performance.now() - startedAt) / 1000);
}

/**
 * Measures two rates alternately, so that a temporary slowdown of the machine affects both. Returns the medians of the
 * rounds.
 */
export async function compared(
  rounds: number,
  first: () => Promise<number>,
  second: () => Promise<number>,
): Promise<readonly [number, number]> {
  const results: [number, number][] = [];
  for (let round = 0; round < rounds; round++) results.push([await first(), await second()]);
  return [median(results.map(([a]) => a)), median(results.map(([, b]) => b))];
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? Number.NaN)) / 2;
}

/** Returns the 99th percentile. */
export function p99(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[Math.ceil(values.length * 0.99) - 1] ?? Number.NaN;
}

/**
 * Returns the CPU time in ms of all present threads of a process. Reads the scheduler's counters, because clock ticks
 * are too coarse.
 */
export function cpuTimeMs(pid: number): number {
  const folder = `/proc/${pid}/task`;
  const ofThread = (thread: string): number =>
    Number(readFileSync(`${folder}/${thread}/schedstat`, "utf8").split(" ")[0]);
  return readdirSync(folder).reduce((sumNs, thread) => sumNs + ofThread(thread), 0) / 1e6;
}
