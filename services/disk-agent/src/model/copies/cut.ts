import { type Holder, isServing, type Leg } from "./holder.js";

/** Returns the holder that lets no new write begin, once all targets of its snapshot have what the disk has. */
export function beginDraining(holder: Holder): Holder {
  const { snapshot, parts } = holder;
  if (snapshot?.phase !== "copying") return holder;
  const isSynced = parts.every(({ legs }) =>
    legs.some(({ use, filling, failure }) => use === "SNAPSHOT" && filling === "synced" && failure === undefined),
  );
  return isSynced ? { ...holder, snapshot: { ...snapshot, phase: "draining" } } : holder;
}

/**
 * Returns the holder after the cut of all parts at one moment: no target is written from here on, whatever is ordered.
 * Waits while a write is in flight or a part holds.
 */
export function cut(holder: Holder, writesInFlight: number): Holder {
  const { snapshot } = holder;
  if (snapshot?.phase !== "draining" || writesInFlight > 0) return holder;
  if (!holder.parts.every((part) => isServing(holder, part))) return holder;
  const parts = holder.parts.map((part) => ({ ...part, legs: part.legs.map(asCut) }));
  return { ...holder, parts, snapshot: { ...snapshot, phase: "cut" } };
}

/**
 * Gives the snapshot up when one of its targets has failed, also one that restarted before it was flushed. Before the cut
 * also when a request has failed: it may be on a target alone.
 */
export function endOfFailed(holder: Holder): Holder {
  const phase = holder.snapshot?.phase;
  const isFailed = ({ use, failure }: Leg): boolean => isTarget(use) && failure !== undefined;
  const hasFailed = holder.hasFailed && phase !== "cut";
  if (!hasFailed && !holder.parts.some(({ legs }) => legs.some(isFailed))) return holder;
  return phase === "failed" ? holder : giveUpSnapshot(holder);
}

/** Returns the holder that goes on without the snapshot. */
function giveUpSnapshot(holder: Holder): Holder {
  const { snapshot } = holder;
  if (snapshot === undefined) return holder;
  const parts = holder.parts.map((part) => ({ ...part, legs: part.legs.filter(({ use }) => !isTarget(use)) }));
  return { ...holder, parts, snapshot: { ...snapshot, phase: "failed" } };
}

const isTarget = (use: Leg["use"]): boolean => use === "SNAPSHOT" || use === "CUT";

function asCut({ filling, ...leg }: Leg): Leg {
  return leg.use === "SNAPSHOT" ? { ...leg, use: "CUT" } : { ...leg, ...(filling && { filling }) };
}
