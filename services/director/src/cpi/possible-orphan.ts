import type { PossibleOrphan } from "../store/possible-orphan.js";

/** Returns the oldest orphans beyond the limit. */
export function surplusOrphans(orphans: Iterable<PossibleOrphan>, limit: number): PossibleOrphan[] {
  const byAge = [...orphans].sort((a, b) => a.sinceMs - b.sinceMs);
  return byAge.slice(0, Math.max(0, byAge.length - limit));
}
