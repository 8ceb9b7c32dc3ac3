import type { Random } from "../random.js";

/** A kind of fault, as the planner sees it. */
interface Plannable {
  readonly name: string;
  readonly lengthMs: number;
  readonly targets: readonly string[];
}

export interface Planned {
  readonly fault: string;
  readonly target: string;
  readonly beginMs: number;
  readonly lengthMs: number;
}

export interface ScheduleOptions {
  readonly faults: readonly Plannable[];
  readonly totalMs: number;
  /** Maximum concurrent faults. */
  readonly lanes: number;
  readonly random: Random;
}

const LEAST_PAUSE_MS = 500;
const MOST_PAUSE_MS = 5_000;
/** Maximum share of the soak that one fault may last, so that short soaks have time between faults. */
const LARGEST_SHARE = 0.2;

/**
 * Plans the faults: each fault on each of its targets in random order, and again from the beginning. A fault with few
 * targets occurs as often in a round as one with many: first one target of each fault, then the others.
 */
export function planFaults({ faults, totalMs, lanes, random }: ScheduleOptions): Planned[] {
  const planned: Planned[] = [];
  const next = rounds(faults, random);
  const pauseMs = () => Math.min(totalMs / 20, LEAST_PAUSE_MS + random.next() * (MOST_PAUSE_MS - LEAST_PAUSE_MS));
  const freeAtMs = Array.from({ length: lanes }, pauseMs);
  for (;;) {
    const beginMs = Math.min(...freeAtMs);
    const chosen = next();
    if (chosen === undefined) return planned;
    const lengthMs = Math.min(chosen.lengthMs, totalMs * LARGEST_SHARE);
    if (beginMs + lengthMs > totalMs) return planned;
    planned.push({ fault: chosen.fault, target: chosen.target, beginMs, lengthMs });
    freeAtMs[freeAtMs.indexOf(beginMs)] = beginMs + lengthMs + pauseMs();
  }
}

/** Yields rounds without end: one random target of each fault, until every target had its turn. */
function rounds(faults: readonly Plannable[], random: Random) {
  let waiting: { readonly fault: string; readonly target: string; readonly lengthMs: number }[] = [];
  const refill = () => {
    const shuffledTargets = faults.map((fault) => ({ fault, targets: shuffled(fault.targets, random) }));
    const most = Math.max(0, ...faults.map(({ targets }) => targets.length));
    for (let index = 0; index < most; index++) {
      const sweep = shuffledTargets.flatMap(({ fault, targets }) => {
        const target = targets[index];
        return target === undefined ? [] : [{ fault: fault.name, target, lengthMs: fault.lengthMs }];
      });
      waiting.push(...shuffled(sweep, random));
    }
  };
  return () => {
    if (waiting.length === 0) refill();
    const [first, ...rest] = waiting;
    waiting = rest;
    return first;
  };
}

function shuffled<T>(items: readonly T[], random: Random): T[] {
  return items
    .map((item) => ({ item, place: random.next() }))
    .sort((a, b) => a.place - b.place)
    .map(({ item }) => item);
}
