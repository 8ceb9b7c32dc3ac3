import type { DeviceId } from "@diskmesh/domain";
import { changeLeg, type Holder, type HolderPart, isRecorded, isServing, LEG_TIMEOUT_MS, type Leg } from "./holder.js";

/** Notes that a copy has answered under the holder's session, from this boot of its machine. */
export function noteHeard(
  holder: Holder,
  part: number,
  deviceId: DeviceId,
  { bootId, nowMs }: { readonly bootId: string; readonly nowMs: number },
): Holder {
  return changeLeg(holder, part, deviceId, (leg) => {
    const { failure, ...rest } = leg;
    const heard = { ...rest, bootId, heardAtMs: nowMs };
    // A machine that restarted has lost what was written and not flushed; such a copy is as wrong as one that failed.
    const hasLost = leg.bootId !== undefined && leg.bootId !== bootId && leg.touched > leg.flushed;
    if (hasLost) return { ...heard, failure: "rebooted" };
    return failure === undefined || failure === "silent" ? heard : { ...heard, failure };
  });
}

/** Notes that a request has failed on a copy: it is never taken for equal again without being copied. */
export function noteError(holder: Holder, part: number, deviceId: DeviceId): Holder {
  return changeLeg(holder, part, deviceId, (leg) => ({ ...leg, failure: "error" }));
}

/** Notes that a copy obeys a later session: this one is over for all of them. */
export function noteSuperseded(holder: Holder): Holder {
  return holder.isOver ? holder : { ...holder, isOver: true };
}

/** Notes which copies were not heard for too long. */
export function noteSilence(holder: Holder, nowMs: number): Holder {
  let noted = holder;
  for (const [index, { legs }] of holder.parts.entries())
    for (const { deviceId, failure, heardAtMs } of legs)
      if (failure === undefined && nowMs - heardAtMs >= LEG_TIMEOUT_MS)
        noted = changeLeg(noted, index, deviceId, (leg) => ({ ...leg, failure: "silent" }));
  return noted;
}

export function noteRecorded(holder: Holder, part: number, deviceId: DeviceId, layout: number): Holder {
  return changeLeg(holder, part, deviceId, (leg) => ({ ...leg, recordedLayout: layout }));
}

/** Notes that a write was sent to the copy, or has ended there. `step` is a number that grows with each. */
export function noteTouched(holder: Holder, part: number, deviceId: DeviceId, step: number): Holder {
  return changeLeg(holder, part, deviceId, (leg) => ({ ...leg, touched: step }));
}

/** Notes that a flush has ended that was sent at `step`. */
export function noteFlushed(holder: Holder, part: number, deviceId: DeviceId, step: number): Holder {
  return changeLeg(holder, part, deviceId, (leg) => ({ ...leg, flushed: Math.max(leg.flushed, step) }));
}

/** Notes that a block of the part's `blocks` was copied. A repeated word changes nothing. */
export function noteCopied(
  holder: Holder,
  part: number,
  deviceId: DeviceId,
  { block, blocks }: { readonly block: number; readonly blocks: number },
): Holder {
  return changeLeg(holder, part, deviceId, (leg) => {
    if (leg.filling !== "copying" || leg.copiedBlocks !== block) return leg;
    const copiedBlocks = block + 1;
    return { ...leg, copiedBlocks, ...(copiedBlocks === blocks && { filling: "settling" }) };
  });
}

/** Notes that the copy was flushed after all regions were copied. */
export function noteSettled(holder: Holder, part: number, deviceId: DeviceId): Holder {
  return changeLeg(holder, part, deviceId, (leg) =>
    leg.filling === "settling" && leg.failure === undefined ? { ...leg, filling: "synced" } : leg,
  );
}

/** A message of a holder to the registry, sent until it is answered. */
export type HolderWord =
  | { readonly says: "DROP" | "EQUAL"; readonly part: number; readonly deviceId: DeviceId }
  /** The holder follows its revision: all records say so. */
  | { readonly says: "FOLLOWING" }
  | { readonly says: "CUT" | "SNAPSHOT_FAILED"; readonly jobId: string }
  /** No copy of a part is left to serve it, probably for the holder's own network, or the copies may differ. */
  | { readonly says: "STUCK"; readonly part: number };

/**
 * Returns what the holder has to say. EQUAL binds: say it of a holder that `bind` has returned. When all copies of a
 * part have failed at once, none of them is to be dropped.
 */
export function wordsOf(holder: Holder): readonly HolderWord[] {
  if (holder.isOver || !holder.isFollowing) return [];
  const words: HolderWord[] = [];
  for (const [part, { legs }] of holder.parts.entries()) {
    const hasNone = isStuck(legs);
    const mayDiffer = holder.hasFailed && legs.filter(({ use }) => use === "COUNTS" || use === "COPYING").length > 1;
    if (hasNone || mayDiffer) words.push({ says: "STUCK", part });
    for (const { deviceId, use, failure, filling } of legs) {
      if (use === "SNAPSHOT" || use === "CUT") continue;
      if (failure !== undefined && !(hasNone && use === "COUNTS")) words.push({ says: "DROP", part, deviceId });
      else if (failure === undefined && filling === "bound") words.push({ says: "EQUAL", part, deviceId });
    }
  }
  const { snapshot } = holder;
  if (snapshot?.phase === "failed") words.push({ says: "SNAPSHOT_FAILED", jobId: snapshot.jobId });
  if (snapshot?.phase === "cut" && holder.parts.every(({ legs }) => legs.every(isDiskOfItsOwn)))
    words.push({ says: "CUT", jobId: snapshot.jobId });
  if (holder.parts.every((part) => isServing(holder, part))) words.push({ says: "FOLLOWING" });
  return words;
}

/** Returns whether the copy is a disk of its own: its record, before which it was flushed, says so. */
function isDiskOfItsOwn(leg: Leg): boolean {
  return leg.use !== "CUT" || (isRecorded(leg, 0) && leg.flushed >= leg.touched);
}

/**
 * Returns the holder bound to what it says. A copy that is said to be equal is needed by every write from here on, and
 * one that is to be dropped for its silence is not taken back when it answers: the registry may have dropped it. No copy
 * is said to be equal before the records of all that count name it, so that it is asked after a restore, also if they fail
 * at once; nor after a request has failed, which may be on some copies alone.
 */
export function bind(holder: Holder): Holder {
  if (holder.isOver || !holder.isFollowing) return holder;
  const parts = holder.parts.map((part) => {
    const legs = boundLegs(holder, part);
    return legs.every((leg, index) => leg === part.legs[index]) ? part : { ...part, legs };
  });
  return parts.every((part, index) => part === holder.parts[index]) ? holder : { ...holder, parts };
}

function boundLegs(holder: Holder, { legs, layout }: HolderPart): readonly Leg[] {
  const mayCount = !holder.hasFailed && legs.every((leg) => leg.use !== "COUNTS" || isRecorded(leg, layout));
  return legs.map((leg): Leg => {
    if (mayCount && isSynced(leg)) return { ...leg, filling: "bound" };
    return leg.failure === "silent" && !isStuck(legs) ? { ...leg, failure: "given up" } : leg;
  });
}

function isSynced({ use, filling, failure }: Leg): boolean {
  return use === "COPYING" && filling === "synced" && failure === undefined;
}

/** Returns whether no copy is left that could serve the part. */
function isStuck(legs: readonly Leg[]): boolean {
  return legs.every(({ use, failure }) => use !== "COUNTS" || failure !== undefined);
}

/** Returns the next block to copy to a leg, or that it is to be flushed; undefined when there is nothing to do. */
export function nextFilling(holder: Holder, part: number, leg: Leg): { readonly block: number } | "flush" | undefined {
  const { layout = 0 } = holder.parts[part] ?? {};
  if (leg.failure !== undefined || holder.isOver || !isRecorded(leg, layout)) return undefined;
  if (leg.filling === "copying") return { block: leg.copiedBlocks };
  return leg.filling === "settling" ? "flush" : undefined;
}

/** Returns the counting copy to read from: one that has not failed. */
export function readLeg(holder: Holder, part: number): Leg | undefined {
  return holder.parts[part]?.legs.find(({ use, failure }) => use === "COUNTS" && failure === undefined);
}
