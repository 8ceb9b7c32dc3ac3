import type { DiskId } from "@diskmesh/domain";
import { ownerOf } from "../identity/labels.js";
import { countingCopy, countingDevices, partSizeBytes } from "../store/layout.js";
import { disksOn, holds, holdsAnyDisk, type UnknownSession } from "../store/runs.js";
import type { Device, Disk, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { type ByteRange, bytesOf, freeRanges, withDirtyBytes } from "../store/slices.js";
import { mayHaveGiven } from "./counters.js";

/** Last session that an agent remembers for a device. */
export interface RememberedSession {
  /** Highest session; 0 when none. */
  readonly sessionNumber: number;
  /** Disk of the session; empty for an erase; undefined when the agent does not report it. */
  readonly sessionDiskId: DiskId | "" | undefined;
  /** Sessions of ranges of the device. Absent: the session above is of all its bytes. */
  readonly ranges?: readonly RememberedRange[] | undefined;
  /** Number up to which the agent has forgotten sessions of erases. Absent: 0. */
  readonly floor?: number | undefined;
}

/** Last session that an agent remembers for a range of a device. */
export interface RememberedRange extends ByteRange {
  readonly sessionNumber: number;
  /** Empty for an erase. */
  readonly diskId: DiskId | "";
}

/**
 * Returns, for each run of the disk on the device, the session that the agent remembers for all its bytes; 0 for none.
 */
export function sessionsRemembered(
  device: Device,
  diskId: DiskId,
  { sessionNumber, ranges }: RememberedSession,
): readonly { readonly first: number; readonly sessionNumber: number }[] {
  const runs = device.runs.filter((run) => run.diskId === diskId);
  return runs.map((run) => {
    const own = bytesOf(device, run);
    const found = ranges === undefined ? sessionNumber : ranges.find((range) => isIn(own, range))?.sessionNumber;
    return { first: run.first, sessionNumber: found ?? 0 };
  });
}

const endOf = ({ offsetBytes, sizeBytes }: ByteRange): number => offsetBytes + sizeBytes;

const isIn = (inner: ByteRange, outer: ByteRange): boolean =>
  inner.offsetBytes >= outer.offsetBytes && endOf(inner) <= endOf(outer);

/**
 * Returns the highest session that the agent remembers for the device, of those that this registry never issued, and
 * whose disk is not on the device.
 */
export function findUnknownSession(
  tables: RegistryTables,
  device: Device,
  remembered: RememberedSession,
): UnknownSession | undefined {
  const { ranges } = remembered;
  const owner = device.foundLabel && ownerOf(tables, device.foundLabel);
  const all = ranges?.map((range) => {
    const { sessionNumber, diskId } = range;
    // The drive was adopted here after the backup that was restored, and is to be adopted again.
    if (owner !== undefined && owner.deviceId !== device.deviceId && isOn(owner, range)) return undefined;
    if (isOnOthersBytes(device, range)) return { sessionNumber, diskId };
    return whenUnknown(tables, device, { sessionNumber, sessionDiskId: diskId });
  }) ?? [whenUnknown(tables, device, remembered)];
  const unknown = [...all, whenForgotten(tables, device, remembered)].flatMap((session) => session ?? []);
  return unknown.sort((a, b) => b.sessionNumber - a.sessionNumber)[0];
}

function whenUnknown(
  tables: RegistryTables,
  device: Device,
  { sessionNumber, sessionDiskId }: Pick<RememberedSession, "sessionNumber" | "sessionDiskId">,
): UnknownSession | undefined {
  const { lastSessionNumber } = device;
  if (sessionNumber <= (lastSessionNumber ?? 0)) return undefined;
  if (holdsAnyDisk(device)) {
    // Accepts any session number of the disk that the registry has on this device, because a former leader may have
    // published the disk again.
    if (sessionDiskId && holds(device, sessionDiskId)) return undefined;
    const ofDisks = disksOn([device]).map((diskId) => tables.disks.get(diskId)?.lastSessionNumber ?? 0);
    if (sessionDiskId === undefined && sessionNumber <= Math.max(...ofDisks)) return undefined;
  }
  if (lastSessionNumber === undefined && mayHaveGiven(tables, "session_number", sessionNumber)) return undefined;
  return { sessionNumber, diskId: sessionDiskId ?? "" };
}

/** Returns whether all bytes of the range are a run of its disk on the device. */
function isOn(device: Device, range: RememberedRange): boolean {
  if (range.diskId === "") return false;
  return device.runs.some((run) => run.diskId === range.diskId && isIn(range, bytesOf(device, run)));
}

/**
 * Returns whether the agent remembers a disk on free slices or on another disk's run. An agent forgets a disk's session
 * before its slices are free, so that the disk has grown, or moved, after the backup that was restored.
 */
function isOnOthersBytes(device: Device, range: RememberedRange): boolean {
  if (range.diskId === "" || device.sliceBytes === undefined) return false;
  const others = device.runs.filter(({ diskId }) => diskId !== "" && diskId !== range.diskId);
  return [...others, ...freeRanges(device)].some((run) => overlap(bytesOf(device, run), range));
}

/**
 * Returns the erase that the agent has forgotten, when it is one of the bytes of a disk: the registry's store is older
 * than the erase. No registry of the store's time has given the floor, and a disk that had a session has none there.
 */
function whenForgotten(
  tables: RegistryTables,
  device: Device,
  { floor = 0, ranges }: RememberedSession,
): UnknownSession | undefined {
  const lastOf = (diskId: DiskId | ""): number => tables.disks.get(diskId)?.lastSessionNumber ?? 0;
  if (ranges === undefined || floor <= Math.max(device.lastSessionNumber ?? 0, ...disksOn([device]).map(lastOf)))
    return undefined;
  const isForgotten = device.runs.some((run) => {
    const bytes = bytesOf(device, run);
    return lastOf(run.diskId) > 0 && !ranges.some((range) => overlap(range, bytes));
  });
  return isForgotten ? { sessionNumber: floor, diskId: "" } : undefined;
}

function overlap(a: ByteRange, b: ByteRange): boolean {
  return a.offsetBytes < endOf(b) && b.offsetBytes < endOf(a);
}

/** Returns the device with its unknown session recorded. */
export function markUnknown(tx: RegistryTransaction, device: Device, remembered: RememberedSession): Device {
  const unknownSession = findUnknownSession(tx, device, remembered);
  const known = device.unknownSession;
  // Keeps `unknownSession` although the report lacks the session, because the agent may have lost its cache. Only an
  // operator clears `unknownSession`.
  if (unknownSession === undefined) return device;
  const all = [{ offsetBytes: 0, sizeBytes: device.sizeBytes }];
  const dirtied: Device = (remembered.ranges ?? all).reduce(withDirtyBytes, device);
  const isKnown = known !== undefined && known.sessionNumber >= unknownSession.sessionNumber;
  if (isKnown && dirtied === device) return device;
  const marked: Device = { ...dirtied, unknownSession: isKnown ? known : unknownSession };
  tx.devices.put(marked);
  return marked;
}

/** Returns why the device gets no orders, erases or sessions; undefined when it may get them. */
export function whyUnknown({ deviceId, hostId, unknownSession }: Device): string | undefined {
  if (unknownSession === undefined) return undefined;
  const { sessionNumber, diskId } = unknownSession;
  const what = diskId === "" ? "an erase" : `disk ${diskId}`;
  return (
    `device ${deviceId} on host ${hostId} is held by an unknown disk: its agent remembers session ${sessionNumber} for ${what}, ` +
    `which this registry never issued; say who is right, the registry or the agent: diskmesh decide-unknown registry ${deviceId} --dry-run`
  );
}

/**
 * Returns why the latest bytes of a disk may lie on a device that is not the disk's: an agent remembers the disk there,
 * in a session that this registry never gave. The disk moved or grew after the backup that was restored.
 */
export function whyElsewhere(tables: RegistryTables, diskId: DiskId): string | undefined {
  const [device] = rememberedOn(tables, diskId);
  if (device === undefined) return undefined;
  const found = movedPart(tables, device);
  const agent = typeof found === "string" ? `changes nothing: ${found}` : "makes the device the disk's";
  return `disk ${diskId} may have moved or grown after the backup of this registry: ${whyUnknown(device)} (REGISTRY discards what is there, AGENT ${agent})`;
}

/** Returns the devices, not the disk's own, on which agents remember the disk. */
function rememberedOn(tables: RegistryTables, diskId: DiskId): readonly Device[] {
  return [...tables.devices.by("unknownByDisk", diskId)].filter((device) => !holds(device, diskId));
}

/** A part of a disk that is certain to have moved to a device after the backup that was restored. */
interface MovedPart {
  readonly disk: Disk;
  readonly index: number;
  /** Device on which this registry knows the part, and which was given to something else since. */
  readonly former: Device;
}

/**
 * Returns the part that has moved to the device; a reason when that is not certain. A registry gives the device of a
 * part to another disk, or to an erase, only after the part has moved. Its agent then remembers that.
 */
export function movedPart(tables: RegistryTables, device: Device): MovedPart | string {
  const { deviceId, attachState, unknownSession } = device;
  const disk = tables.disks.get(unknownSession?.diskId ?? "");
  if (disk === undefined) return "this registry knows no such disk";
  const [first, second] = rememberedOn(tables, disk.diskId);
  if (second !== undefined) return `agents remember it on ${first?.deviceId} and ${second.deviceId}`;
  if (disk.publication?.state === "PUBLISHED") return `it is published to host ${disk.publication.hostId}`;
  if (attachState !== "ATTACHED") return `device ${deviceId} is ${attachState}`;
  if (device.sliceBytes !== undefined) return `nothing says on which slices of ${deviceId} it is`;
  const given = disk.parts.flatMap((part, index) => {
    const former = tables.devices.get(countingCopy(part).deviceId);
    const isGivenAway = former?.unknownSession !== undefined && former.unknownSession.diskId !== disk.diskId;
    return isGivenAway ? [{ disk, part, index, former }] : [];
  });
  const [moved, ...others] = given;
  if (moved === undefined) return `nothing says that it has left ${countingDevices(disk).join(", ")}`;
  if (others.length > 0) return `it has left ${given.map(({ former }) => former.deviceId).join(" and ")}`;
  if (moved.part.copies.length > 1) return "it moved at the time of the backup";
  if (partSizeBytes(tables, moved.part) > device.sizeBytes) return `device ${deviceId} is too small`;
  return moved;
}
