import type { DiskId } from "@diskmesh/domain";
import { countingCopy, countingDevices, partSizeBytes } from "../store/layout.js";
import { allDirty, diskOn, hasFreeBytes, holds } from "../store/runs.js";
import type { Device, Disk, RegistryTables, RegistryTransaction, UnknownSession } from "../store/schema.js";
import { mayHaveGiven } from "./counters.js";

/** Last session that an agent remembers for a device. */
export interface RememberedSession {
  /** Highest session; 0 when none. */
  readonly sessionNumber: number;
  /** Disk of the session; empty for an erase; undefined when the agent does not report it. */
  readonly sessionDiskId: DiskId | "" | undefined;
}

/**
 * Returns the session that the agent remembers for the device, if this registry never issued it and the session's disk
 * is not the device's disk.
 */
export function findUnknownSession(
  tables: RegistryTables,
  device: Device,
  { sessionNumber, sessionDiskId }: RememberedSession,
): UnknownSession | undefined {
  const { lastSessionNumber } = device;
  const diskId = diskOn(device);
  if (sessionNumber <= (lastSessionNumber ?? 0)) return undefined;
  if (diskId !== "") {
    // Accepts any session number of the disk that the registry has on this device, because a former leader may have
    // published the disk again.
    if (sessionDiskId === diskId) return undefined;
    const ofDisk = tables.disks.get(diskId)?.lastSessionNumber ?? 0;
    if (sessionDiskId === undefined && sessionNumber <= ofDisk) return undefined;
  }
  if (lastSessionNumber === undefined && mayHaveGiven(tables, "session_number", sessionNumber)) return undefined;
  return { sessionNumber, diskId: sessionDiskId ?? "" };
}

/** Returns the device with its unknown session recorded. */
export function markUnknown(tx: RegistryTransaction, device: Device, remembered: RememberedSession): Device {
  const unknownSession = findUnknownSession(tx, device, remembered);
  const known = device.unknownSession;
  // Keeps `unknownSession` although the report lacks the session, because the agent may have lost its cache. Only an
  // operator clears `unknownSession`.
  if (unknownSession === undefined || (known && known.sessionNumber >= unknownSession.sessionNumber)) return device;
  const marked: Device = { ...(hasFreeBytes(device) ? allDirty(device) : device), unknownSession };
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
    "which this registry never issued; decide with DecideUnknownDisks whether the registry or the agent is right"
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
