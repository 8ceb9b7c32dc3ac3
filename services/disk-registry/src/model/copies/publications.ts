import type { DeviceId, HostId } from "@diskmesh/domain";
import {
  type CopiedDisk,
  type CopiedPart,
  type CopiedPublication,
  changeCopy,
  copyOf,
  devicesIn,
  isPresent,
} from "./copied-disk.js";
import { withDropped } from "./drops.js";

/** Answers of devices that were asked for a session, as one leader has heard them. */
export interface Grants {
  /** Devices that granted the session, and whether their own record says that they count. */
  readonly granted: ReadonlyMap<DeviceId, { readonly saysCounts: boolean }>;
  /** Devices that may be dropped without an answer: see `mayDropUnheard`. */
  readonly excused: ReadonlySet<DeviceId>;
  readonly nowMs: number;
  /** A new number of the sessions' counter. */
  readonly layout: number;
}

/**
 * Returns the disk with a new session for the host, for which all copies are to be asked. Copies of an earlier session
 * begin anew, and a snapshot that is being made ends.
 */
export function beginPublication(
  disk: CopiedDisk,
  wish: { readonly hostId: HostId; readonly isRepair?: true | undefined },
  session: number,
): CopiedDisk {
  return withSession(
    disk,
    { hostId: wish.hostId, state: "PUBLISHING", ...(wish.isRepair && { isRepair: true }) },
    session,
  );
}

/** Returns the disk with the order to the holder to end. Its report of a clean end counts until `beginFence`. */
export function beginEnd(disk: CopiedDisk): CopiedDisk {
  if (disk.publication?.state !== "PUBLISHED") return disk;
  return { ...disk, publication: { ...disk.publication, state: "ENDING" } };
}

/** Returns the disk with a new session for nobody. No report of the former holder counts from here on. */
export function beginFence(disk: CopiedDisk, session: number): CopiedDisk {
  if (disk.publication === undefined || disk.publication.state === "FENCING") return disk;
  return withSession(disk, { ...disk.publication, state: "FENCING" }, session);
}

/** Returns the disk with a higher session for the same purpose, because a device has seen a higher one. */
export function renewSession(disk: CopiedDisk, session: number): CopiedDisk {
  return disk.publication === undefined ? disk : withSession(disk, disk.publication, session);
}

function withSession(
  disk: CopiedDisk,
  { hostId, state, isRepair }: Pick<CopiedPublication, "hostId" | "state" | "isRepair">,
  session: number,
): CopiedDisk {
  const parts = disk.parts.map((part) => ({
    ...part,
    copies: part.copies.map(({ session: _, isOpen: __, ...copy }) => copy),
  }));
  const begun = { hostId, state, ...(isRepair && { isRepair }), session, revision: 1, confirmedRevision: 0 };
  return { ...disk, parts, publication: begun, lastSession: session, snapshot: undefined };
}

/**
 * Returns the disk with the publication or the fence completed; undefined while it waits for a device. Of each part one
 * copy must have granted that counts in the store and in its own record, or on a person's word. The others are dropped here, in the same
 * transaction, or the publication waits for them. After an unclean end one copy is chosen, and the others are RESYNC.
 */
export function completeSession(disk: CopiedDisk, grants: Grants): CopiedDisk | undefined {
  const { publication } = disk;
  if (publication?.state !== "PUBLISHING" && publication?.state !== "FENCING") return undefined;
  if (disk.isUnproven) return undefined;
  const parts: CopiedPart[] = [];
  for (const part of disk.parts) {
    const granting = chosenOf(disk, part, grants);
    if (granting === undefined) return undefined;
    parts.push(granting);
  }
  if (publication.state === "FENCING") return { ...disk, parts, publication: undefined };
  const isUsed = !publication.isRepair;
  return {
    ...disk,
    parts,
    publication: { ...publication, state: "PUBLISHED" },
    isUnclean: isUsed || undefined,
  };
}

/** Returns the devices that a former holder may still read: those that count, and those that leave without its knowledge. */
export function askedDevices(part: CopiedPart): readonly DeviceId[] {
  return [...devicesIn(part, "COUNTS"), ...devicesIn(part, "LEAVING")];
}

/** Returns the part with the copies that the session leaves; undefined while a copy is waited for. */
function chosenOf(
  disk: CopiedDisk,
  part: CopiedPart,
  { granted, excused, nowMs, layout }: Grants,
): CopiedPart | undefined {
  const counting = devicesIn(part, "COUNTS");
  if (!askedDevices(part).every((deviceId) => granted.has(deviceId) || excused.has(deviceId))) return undefined;
  const isUnrecorded = (deviceId: DeviceId): boolean => copyOf(part, deviceId)?.isUnrecorded === true;
  const believed = counting.filter(
    (deviceId) => granted.get(deviceId)?.saysCounts || (granted.has(deviceId) && isUnrecorded(deviceId)),
  );
  const [chosen] = believed;
  if (chosen === undefined) return undefined;
  let left = part;
  for (const deviceId of counting) {
    if (!granted.has(deviceId)) left = withDropped(left, deviceId, { layout, nowMs });
    // A fence leaves the choice to the next publication, so that copies that are heard later can still count.
    else if (disk.publication?.state === "FENCING") continue;
    else if (!believed.includes(deviceId) || (disk.isUnclean && deviceId !== chosen))
      left = { ...changeCopy(left, deviceId, (copy) => ({ ...copy, state: "RESYNC", sinceMs: nowMs })), layout };
  }
  return left;
}

/**
 * Takes a holder's report that all copies are flushed and that no request has failed. Ignores a report of another
 * session or revision, and one that comes after a higher session was begun.
 */
export function noteCleanEnd(disk: CopiedDisk, said: { session: number; revision: number }): CopiedDisk {
  return disk.publication?.state === "ENDING" && isPresent(disk, said) ? { ...disk, isUnclean: undefined } : disk;
}

/**
 * Takes the holder's word that it follows the revision: its layout is in the records of all copies that count in it. A later
 * revision may have copies that its records do not name yet.
 */
export function noteConfirmed(
  disk: CopiedDisk,
  { session, revision }: { session: number; revision: number },
): CopiedDisk {
  const { publication } = disk;
  if (publication?.session !== session || publication.confirmedRevision >= revision) return disk;
  const confirmed = { ...disk, publication: { ...publication, confirmedRevision: revision } };
  if (revision < publication.revision) return confirmed;
  const parts = disk.parts.map((part) => ({
    ...part,
    copies: part.copies.map(({ isUnrecorded: _, ...copy }) => copy),
  }));
  return { ...confirmed, parts };
}

export interface Unheard {
  /** True when the device's host is suspected, UNAVAILABLE or DEAD. */
  readonly isHostSilent: boolean;
  /** Time since the device was asked for the session. */
  readonly askedForMs: number;
  /** Time since another copy of each of its parts granted the session; undefined before. */
  readonly othersGrantedForMs: number | undefined;
  /** True when somebody waits for the publication. */
  readonly isWaitedFor: boolean;
  /** True when more than half of the hosts are silent: the registry's own network may be the cause. */
  readonly isMassSilence: boolean;
}

export interface DropLimits {
  /** Time after which a copy is dropped that does not grant although its host is heard. */
  readonly copyGrantTimeoutMs: number;
  /**
   * Time after the grants of the others, before which a former holder may still read its own copy. Longer than the
   * holders' limit of silence.
   */
  readonly readLeaseMs: number;
}

/** Returns whether a copy may be dropped that has not granted the session. */
export function mayDropUnheard(unheard: Unheard, { copyGrantTimeoutMs, readLeaseMs }: DropLimits): boolean {
  const { isHostSilent, askedForMs, othersGrantedForMs, isWaitedFor, isMassSilence } = unheard;
  if (isMassSilence || othersGrantedForMs === undefined || othersGrantedForMs < readLeaseMs) return false;
  return isHostSilent || (isWaitedFor && askedForMs >= copyGrantTimeoutMs);
}

/**
 * Returns whether the registration of the holder's agent shows that its export is lost: requests may have been in
 * flight, so a new session begins, with the choice of a copy.
 */
export function isExportLost(
  { publication }: CopiedDisk,
  registered: { readonly hostId: HostId; readonly servedSessions: readonly number[] },
): boolean {
  if (publication?.hostId !== registered.hostId || publication.state !== "PUBLISHED") return false;
  return !registered.servedSessions.includes(publication.session);
}
