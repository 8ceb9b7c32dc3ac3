import type { Known } from "../explain/cause.js";

/** Returns the facts of a director at 1,000 ms that has nothing but the given ones. */
export function known(fields: Partial<Known> = {}): Known {
  return {
    taskOf: () => undefined,
    locks: [],
    openSteps: () => [],
    liveIn: () => 4,
    callsOf: () => [],
    retriesOf: () => [],
    dispatcherNeed: () => undefined,
    callsAt: () => [],
    nowMs: 1_000,
    stuckAfterMs: 700,
    isBusy: () => false,
    vmOf: () => undefined,
    diskOf: () => undefined,
    ...fields,
  };
}
