import { countingCopy } from "../store/layout.js";
import type { DiskRequest, RegistryTables } from "../store/schema.js";
import type { Space } from "../store/slices.js";
import { type AllocationLimits, Candidates, emptyOf } from "./candidates.js";
import { MAX_HOSTS_READ } from "./gathering.js";
import type { Moving } from "./moves.js";

/** A device without runs has more than this part of its bytes in slices, since only one of nearly two slices may fit. */
const LEAST_IN_SLICES = 1 / 3;

/** Returns whether the part has all bytes of its device, as every part of 0.1.0 does. */
export function isWhole({ part }: Pick<Moving, "part">): boolean {
  return countingCopy(part).first === undefined;
}

/**
 * Returns an empty device as a whole. A part of 0.1.0 fits on an equal drive only in place of label area and record, and
 * a fleet of equal drives has no larger one.
 */
export function chooseWhole(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): Space | undefined {
  let read = 0;
  for (const { hostId, largestBytes } of new Candidates(tables, request, limits).byLargest()) {
    if (largestBytes < request.sizeBytes * LEAST_IN_SLICES || read++ === MAX_HOSTS_READ) break;
    const [smallest] = emptyOf(tables, hostId, request, limits)
      .filter(({ sizeBytes }) => sizeBytes >= request.sizeBytes)
      .sort((a, b) => a.sizeBytes - b.sizeBytes);
    if (smallest !== undefined) return smallest;
  }
  return undefined;
}
