import type { BlockUse } from "./history.js";

/**
 * Returns why no order of the uses explains them, each at one moment between its beginning and its end; undefined when
 * there is one. As Wing and Gong: tries each use that may be next, and remembers what led nowhere.
 */
export function whyNotLinear(uses: readonly BlockUse[], initial: number): string | undefined {
  const relevant = uses.filter((use) => use.kind !== "read" || use.endsAt !== Number.POSITIVE_INFINITY);
  const sorted = [...relevant].sort((a, b) => a.beganAt - b.beganAt);
  const failed = new Set<string>();
  let furthest = 0;

  const search = (done: ReadonlySet<BlockUse>, from: number, value: number): boolean => {
    let first = from;
    while (first < sorted.length && done.has(sorted[first] as BlockUse)) first++;
    furthest = Math.max(furthest, first);
    if (first === sorted.length) return true;
    const key = `${first} ${value} ${[...done].filter((use) => use.beganAt > (sorted[first] as BlockUse).beganAt).map(({ beganAt }) => beganAt)}`;
    if (failed.has(key)) return false;
    // A use may be next when no other one that is left has ended before it began.
    let earliestEnd = Number.POSITIVE_INFINITY;
    for (let at = first; at < sorted.length; at++) {
      const use = sorted[at] as BlockUse;
      if (done.has(use)) continue;
      if (use.beganAt > earliestEnd) break;
      earliestEnd = Math.min(earliestEnd, use.endsAt);
      for (const next of valuesAfter(use, value)) if (search(new Set(done).add(use), first, next)) return true;
    }
    failed.add(key);
    return false;
  };
  if (search(new Set(), 0, initial)) return undefined;
  const stuck = sorted
    .slice(0, furthest + 1)
    .slice(-6)
    .map(describe);
  return `no order explains ${stuck.join(", then ")}`;
}

/** Returns the values that the block may have after the use; none when the use contradicts the value. */
function valuesAfter({ kind, value, isOptional, candidates = [] }: BlockUse, now: number): readonly number[] {
  if (kind === "read") return value === now ? [now] : [];
  if (kind === "choice") return [...new Set([now, ...candidates])];
  return isOptional ? [now, value] : [value];
}

function describe({ kind, value, beganAt, endsAt, isOptional, candidates }: BlockUse): string {
  const when = `${beganAt}..${endsAt}`;
  if (kind === "choice") return `choice of ${candidates?.join(" or ")} at ${beganAt}`;
  return `${isOptional && kind === "write" ? "unacknowledged " : ""}${kind} of ${value} (${when})`;
}
