import type { Store } from "../mesh/stores.js";
import { FileFleet } from "./file-fleet.js";
import { runStorm, type StormOptions, type StormResult } from "./storm.js";

/** Lease time in ms, long compared with a busy machine's delay of a renewal. */
export const LEASE_MS = 4_000;

/** Runs the storm with two directors on a store that they share. */
export async function runTakeovers(store: Store, options: Omit<StormOptions, "fleet">): Promise<StormResult> {
  const tablet = { ...store.tablet?.("director"), leaseTimeMs: LEASE_MS };
  await using fleet = await FileFleet.start({ directors: ["director-1", "director-2"], tablet });
  return await runStorm({ ...options, fleet });
}
