import type { DeviceId, DiskId } from "@diskmesh/domain";
import type { Device, RegistryTables, RegistryTransaction, UnknownSession } from "../store/schema.js";
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
  const { diskId, lastSessionNumber } = device;
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
  const dirty = device.dirty || device.diskId === "";
  const marked: Device = { ...device, unknownSession, dirty };
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
  for (const device of tables.devices.by("unknownByDisk", diskId))
    if (device.diskId !== diskId)
      return `disk ${diskId} may have moved or grown after the backup of this registry: ${whyUnknown(device)} (REGISTRY discards what is there)`;
  return undefined;
}

export type UnknownDiskVerdict = "registry" | "agent";

export interface Decided {
  readonly deviceIds: readonly DeviceId[];
  /** Disks whose devices changed: they may be published again, or have lost a device. */
  readonly diskIds: readonly DiskId[];
  /** Unknown disks whose devices no longer remember them. A host that exports such a disk must end the export. */
  readonly endedDiskIds: readonly DiskId[];
}

/**
 * Applies an operator's decision. `registry`: the registry's record is right, and the session that the agent remembers
 * is discarded. `agent`: the agent is right, so the registry's disk loses the device. The device stays marked until a
 * `registry` decision.
 */
export function decideUnknown(
  tx: RegistryTransaction,
  devices: readonly Device[],
  verdict: UnknownDiskVerdict,
): Decided {
  const deviceIds: DeviceId[] = [];
  const [diskIds, ended] = [new Set<DiskId>(), new Set<DiskId>()];
  for (const device of devices) {
    const { unknownSession, ...rest } = device;
    if (unknownSession === undefined || (verdict === "agent" && device.diskId === "")) continue;
    deviceIds.push(device.deviceId);
    if (device.diskId !== "") diskIds.add(device.diskId);
    if (verdict === "agent") tx.devices.put({ ...device, diskId: "", dirty: true, eraseSessionNumber: 0 });
    else {
      // The session counts as issued from now on; otherwise the next registration would mark the device again.
      const lastSessionNumber = Math.max(device.lastSessionNumber ?? 0, unknownSession.sessionNumber);
      tx.devices.put({ ...rest, lastSessionNumber });
      if (unknownSession.diskId !== "") ended.add(unknownSession.diskId);
    }
  }
  const endedDiskIds = [...ended].filter((diskId) => tx.devices.count("unknownByDisk", diskId) === 0);
  return { deviceIds, diskIds: [...diskIds].sort(), endedDiskIds };
}
