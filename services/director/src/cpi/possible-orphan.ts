import type { PossibleOrphan } from "../store/possible-orphan.js";

/** Those to forget so that at most so many are left: the oldest. */
export function surplusOrphans(orphans: Iterable<PossibleOrphan>, limit: number): PossibleOrphan[] {
  const byAge = [...orphans].sort((a, b) => a.sinceMs - b.sinceMs);
  return byAge.slice(0, Math.max(0, byAge.length - limit));
}
