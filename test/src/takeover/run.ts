import type { Store } from "../mesh/stores.js";
import { FileFleet } from "./file-fleet.js";
import { runStorm, type StormOptions, type StormResult } from "./storm.js";

/** Lease time in ms, long compared with a busy machine's delay of a renewal. */
const LEASE_MS = 4_000;

export interface TakeoverResult extends StormResult {
  /** Lease time in ms; undefined for a single director, which is restarted instead of replaced. */
  readonly leaseMs: number | undefined;
}

/** Runs the storm on a store, with two directors where the store can be shared, otherwise with one. */
export async function runTakeovers(store: Store, options: Omit<StormOptions, "fleet">): Promise<TakeoverResult> {
  const tablet = store.tablet && { ...store.tablet("director"), leaseTimeMs: LEASE_MS };
  const directors = tablet === undefined ? ["director-1"] : ["director-1", "director-2"];
  await using fleet = await FileFleet.start({ directors, tablet });
  const result = await runStorm({ ...options, fleet });
  return { ...result, leaseMs: tablet === undefined ? undefined : LEASE_MS };
}
