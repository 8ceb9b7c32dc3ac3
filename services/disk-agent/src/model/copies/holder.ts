import type { CopyRecord, DeviceId, DiskId } from "@diskmesh/domain";

/** Time in ms after which a holder answers no read while a counting copy is not heard. See `isFresh`. */
export const LEG_SILENCE_MS = 5_000;
/** Time in ms after which a copy that is not heard has failed. */
export const LEG_TIMEOUT_MS = 8_000;

/**
 * How far a copy is that is being filled. `settling`: all regions are copied; flushes reach the copy, which is flushed
 * once. `synced`: it has all that the others have. `bound`: the registry may count it; no write is acknowledged without it.
 */
type Filling = "copying" | "settling" | "synced" | "bound";

/** A holder's way to one copy. */
export interface Leg {
  readonly deviceId: DeviceId;
  /** SNAPSHOT: becomes a disk of its own. CUT: has become one, and is only flushed. */
  readonly use: "COUNTS" | "COPYING" | "SNAPSHOT" | "CUT";
  /** Session under which the copy obeys. */
  readonly session: number;
  /** Layout that the copy's record has, as far as this holder wrote it. */
  readonly recordedLayout?: number;
  /** `silent` ends when the copy is heard again; the others last. `given up`: DROP was said of it, for its silence. */
  readonly failure?: "error" | "rebooted" | "silent" | "given up";
  readonly heardAtMs: number;
  /** Boot of the device's machine when it last answered. */
  readonly bootId?: string;
  /** Number of the last step of a write, and of the last complete flush: the copy is flushed when the second is higher. */
  readonly touched: number;
  readonly flushed: number;
  /** Set with COPYING and SNAPSHOT: progress, and the blocks that are copied. */
  readonly filling?: Filling;
  readonly copiedBlocks: number;
}

export interface HolderPart {
  readonly layout: number;
  readonly counting: readonly DeviceId[];
  readonly remembered: readonly DeviceId[];
  readonly legs: readonly Leg[];
}

/** A snapshot that the holder makes. `draining`: no new write begins in any part, until none is in flight. */
interface HolderSnapshot {
  readonly jobId: string;
  /** Disk that the targets become. */
  readonly diskId: DiskId;
  readonly targets: readonly DeviceId[];
  readonly targetSession: number;
  readonly phase: "copying" | "draining" | "cut" | "failed";
}

/** The holder of a disk: the agent that serves it to its users. */
export interface Holder {
  readonly diskId: DiskId;
  readonly session: number;
  readonly revision: number;
  /** True when nobody uses the disk: the holder only copies. */
  readonly isRepair: boolean;
  readonly parts: readonly HolderPart[];
  /** True when a request has failed, so that the copies may differ: the end is not clean. */
  readonly hasFailed: boolean;
  /** True when a copy obeys a later session. */
  readonly isOver: boolean;
  /** False from a restart of the agent until the registry has told it its order again. */
  readonly isFollowing: boolean;
  readonly snapshot?: HolderSnapshot | undefined;
}

export interface Order {
  readonly session: number;
  readonly revision: number;
  readonly isRepair: boolean;
  readonly parts: readonly {
    readonly layout: number;
    readonly counting: readonly DeviceId[];
    readonly copying: readonly DeviceId[];
    readonly remembered: readonly DeviceId[];
    /** Sessions of copies that have another than the order's. */
    readonly sessions: ReadonlyMap<DeviceId, number>;
  }[];
  readonly snapshot?: Pick<HolderSnapshot, "jobId" | "diskId" | "targets" | "targetSession"> | undefined;
}

/** Returns the holder that follows the order; the same holder when the order is not later than its own. */
export function takeOrder(diskId: DiskId, holder: Holder | undefined, order: Order, nowMs: number): Holder {
  if (holder !== undefined && order.session !== holder.session) return holder;
  if (
    holder !== undefined &&
    (order.revision < holder.revision || (order.revision === holder.revision && holder.isFollowing))
  )
    return holder;
  const snapshot = snapshotOf(holder?.snapshot, order.snapshot);
  const parts = order.parts.map(({ layout, counting, copying, remembered, sessions }, index) => {
    const before = holder?.parts[index]?.legs ?? [];
    const legFor = (deviceId: DeviceId, use: Leg["use"], session = sessions.get(deviceId) ?? order.session): Leg =>
      keptAs(
        use,
        before.find((leg) => leg.deviceId === deviceId && leg.session === session),
      ) ?? newLeg({ deviceId, use, session }, nowMs);
    const target = snapshot?.targets[index];
    const legs = [
      ...counting.map((deviceId) => legFor(deviceId, "COUNTS")),
      ...copying.map((deviceId) => legFor(deviceId, "COPYING")),
      ...(snapshot?.phase === "cut" ? before.filter(({ use }) => use === "CUT") : []),
      ...(target !== undefined && isFilling(snapshot) ? [legFor(target, "SNAPSHOT", snapshot?.targetSession)] : []),
    ];
    return { layout, counting, remembered, legs };
  });
  const { session, revision, isRepair } = order;
  const kept = { hasFailed: false, isOver: false, ...holder };
  return { ...kept, diskId, session, revision, isRepair, parts, snapshot, isFollowing: true };
}

/** Returns whether the targets of the snapshot get what is written. */
function isFilling(snapshot: HolderSnapshot | undefined): boolean {
  return snapshot?.phase === "copying" || snapshot?.phase === "draining";
}

/** A new leg is not flushed: what an earlier holder wrote may be lost yet, and is not read before. */
function newLeg(leg: Pick<Leg, "deviceId" | "use" | "session">, nowMs: number): Leg {
  const filling = leg.use === "COUNTS" ? undefined : ({ filling: "copying" } as const);
  return { ...leg, heardAtMs: nowMs, touched: 1, flushed: 0, copiedBlocks: 0, ...filling };
}

/**
 * Returns the leg for its use in the new order; undefined when it begins anew: a copy that counted and is to be filled
 * was dropped meanwhile.
 */
function keptAs(use: Leg["use"], leg: Leg | undefined): Leg | undefined {
  if (leg === undefined || leg.use === use) return leg;
  if (use !== "COUNTS" || leg.filling !== "bound") return undefined;
  const { filling: _, ...counting } = leg;
  return { ...counting, use };
}

/** Returns the snapshot of the order. A cut one stays as it is, whatever is ordered. */
function snapshotOf(before: HolderSnapshot | undefined, ordered: Order["snapshot"]): HolderSnapshot | undefined {
  if (ordered === undefined) return undefined;
  if (before?.jobId === ordered.jobId) return before;
  return { ...ordered, phase: "copying" };
}

/** Returns whether no write is acknowledged without the copy. */
export function isNeeded({ use, filling }: Leg): boolean {
  return use === "COUNTS" || (use === "COPYING" && filling === "bound");
}

/**
 * Returns whether the part serves requests. It holds them while a needed copy has failed, until the registry says which
 * ones count, and until their records say so, too.
 */
export function isServing(holder: Holder, { legs, layout }: HolderPart): boolean {
  if (holder.isOver || !holder.isFollowing) return false;
  const needed = legs.filter(isNeeded);
  // The copies may differ: until another session only one of them is read.
  if (holder.hasFailed && needed.length > 1) return false;
  return needed.every((leg) => leg.failure === undefined && isRecorded(leg, layout));
}

/** Returns whether the record says what the copy is used for. */
export function isRecorded({ use, recordedLayout, session }: Leg, layout: number): boolean {
  if (use === "COUNTS") return recordedLayout === layout;
  return use === "CUT" ? recordedLayout === session : recordedLayout !== undefined;
}

/** Returns the record that the copy is to have before it is used in the present layout. */
export function recordFor(holder: Holder, part: number, { deviceId, use, session }: Leg): CopyRecord {
  const { layout = 0, counting = [], remembered = [], legs = [] } = holder.parts[part] ?? {};
  const { snapshot } = holder;
  if (use === "CUT" && snapshot !== undefined) {
    const { diskId, targetSession } = snapshot;
    return {
      diskId,
      part,
      layout: targetSession,
      session,
      counting: [deviceId],
      remembered: [],
      copying: [],
      own: "COUNTS",
    };
  }
  const own = use === "COUNTS" ? "COUNTS" : "COPYING";
  const copying = legs.filter((leg) => leg.use === "COPYING").map((leg) => leg.deviceId);
  return {
    diskId: holder.diskId,
    part,
    layout,
    session,
    counting,
    remembered,
    copying: copying.filter((each) => !remembered.includes(each)),
    own,
  };
}

/**
 * Returns whether what the counting copies have is surely the disk. A holder that is cut off hears the refusal of one
 * of them, or none, before another holder may write: the registry waits longer than LEG_SILENCE_MS before it gives up a
 * copy that did not grant the next session.
 */
export function isFresh({ legs }: HolderPart, nowMs: number): boolean {
  return legs.every(({ use, heardAtMs }) => use !== "COUNTS" || nowMs - heardAtMs < LEG_SILENCE_MS);
}

/** Returns whether the end is clean: all copies are flushed and equal, and no request has failed. */
export function isCleanEnd(holder: Holder): boolean {
  const isFlushed = ({ use, touched, flushed }: Leg): boolean => use !== "COUNTS" || flushed >= touched;
  return !holder.hasFailed && holder.parts.every((part) => isServing(holder, part) && part.legs.every(isFlushed));
}

/** Notes that a user was told of a failure: the request may be on some copies alone. */
export function noteRequestFailed(holder: Holder): Holder {
  return { ...holder, hasFailed: true };
}

/** Returns the holder with the leg of the part replaced by the result of `change`. */
export function changeLeg(holder: Holder, part: number, deviceId: DeviceId, change: (leg: Leg) => Leg): Holder {
  const parts = holder.parts.map((each, index) =>
    index === part ? { ...each, legs: each.legs.map((leg) => (leg.deviceId === deviceId ? change(leg) : leg)) } : each,
  );
  return { ...holder, parts };
}

/**
 * Returns what an agent knows that has restarted while the kernel went on with the disk: its tables. It does not know
 * whether the records say the same, nor whether it was about to say EQUAL or to cut.
 */
export function recovered(holder: Holder): Holder {
  const parts = holder.parts.map((part) => ({
    ...part,
    legs: part.legs.map(({ recordedLayout: _, ...leg }) => leg),
  }));
  const { snapshot } = holder;
  const isUnsure = snapshot !== undefined && snapshot.phase !== "cut";
  return { ...holder, parts, isFollowing: false, snapshot: isUnsure ? { ...snapshot, phase: "failed" } : snapshot };
}
