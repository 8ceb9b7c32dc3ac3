import type { Store } from "../mesh/stores.js";
import { FileFleet } from "./file-fleet.js";
import { runStorm, type StormOptions, type StormResult } from "./storm.js";

/** Long beside what a busy machine makes a renewal wait. */
const LEASE_MS = 4_000;

export interface TakeoverResult extends StormResult {
  /** Undefined where a director that was killed is started again instead of another one taking over. */
  readonly leaseMs: number | undefined;
}

/** The storm on a store: two directors where one can take over, else one, which is started again. */
export async function runTakeovers(store: Store, options: Omit<StormOptions, "fleet">): Promise<TakeoverResult> {
  const tablet = store.tablet && { ...store.tablet("director"), leaseTimeMs: LEASE_MS };
  const directors = tablet === undefined ? ["director-1"] : ["director-1", "director-2"];
  await using fleet = await FileFleet.start({ directors, tablet });
  const result = await runStorm({ ...options, fleet });
  return { ...result, leaseMs: tablet === undefined ? undefined : LEASE_MS };
}
