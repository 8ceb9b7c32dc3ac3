import type { DeviceId, DiskId } from "@diskmesh/domain";
import type { Device, RegistryTables, RegistryTransaction, UnknownSession } from "../store/schema.js";
import { mayHaveGiven } from "./counters.js";

/** What an agent remembers of a device's sessions. */
export interface RememberedSession {
  /** The highest; 0 when none. */
  readonly sessionNumber: number;
  /** Empty for an erase; undefined when the agent does not tell. */
  readonly sessionDiskId: DiskId | "" | undefined;
}

/** The session that the agent remembers for the device, if this registry never gave it and it is not the device's own disk's. */
export function findUnknownSession(
  tables: RegistryTables,
  device: Device,
  { sessionNumber, sessionDiskId }: RememberedSession,
): UnknownSession | undefined {
  const { diskId, lastSessionNumber } = device;
  if (sessionNumber <= (lastSessionNumber ?? 0)) return undefined;
  if (diskId !== "") {
    // However high it is: the disk was published again since, by whoever led then, and is where it is known to be.
    if (sessionDiskId === diskId) return undefined;
    const ofDisk = tables.disks.get(diskId)?.lastSessionNumber ?? 0;
    if (sessionDiskId === undefined && sessionNumber <= ofDisk) return undefined;
  }
  if (lastSessionNumber === undefined && mayHaveGiven(tables, "session_number", sessionNumber)) return undefined;
  return { sessionNumber, diskId: sessionDiskId ?? "" };
}

/** The device with what its agent remembers. */
export function markUnknown(tx: RegistryTransaction, device: Device, remembered: RememberedSession): Device {
  const unknownSession = findUnknownSession(tx, device, remembered);
  const known = device.unknownSession;
  // Once marked, only an operator takes it back: an agent may also forget.
  if (unknownSession === undefined || (known && known.sessionNumber >= unknownSession.sessionNumber)) return device;
  const dirty = device.dirty || device.diskId === "";
  const marked: Device = { ...device, unknownSession, dirty };
  tx.devices.put(marked);
  return marked;
}

/** Why the device is not to be touched; undefined when it may be. */
export function whyUnknown({ deviceId, hostId, unknownSession }: Device): string | undefined {
  if (unknownSession === undefined) return undefined;
  const { sessionNumber, diskId } = unknownSession;
  const what = diskId === "" ? "an erase" : `disk ${diskId}`;
  return (
    `device ${deviceId} on host ${hostId} is held by an unknown disk: its agent remembers session ${sessionNumber} for ${what}, ` +
    "which this registry never gave; let an operator say who is right with DecideUnknownDisks"
  );
}

export type UnknownDiskVerdict = "registry" | "agent";

export interface Decided {
  readonly deviceIds: readonly DeviceId[];
  /** May be published again, or have lost a device. */
  readonly diskIds: readonly DiskId[];
  /** Unknown disks that no device is held by any more: whoever serves them serves nothing. */
  readonly endedDiskIds: readonly DiskId[];
}

/**
 * An operator's word. `registry`: the device is what this registry knew, and what the agent remembers is nobody's.
 * `agent`: the disk that was known there loses the device, which stays as it is until the other verdict.
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
      // Counts as given from now on: else the next registration would mark it again.
      const lastSessionNumber = Math.max(device.lastSessionNumber ?? 0, unknownSession.sessionNumber);
      tx.devices.put({ ...rest, lastSessionNumber });
      if (unknownSession.diskId !== "") ended.add(unknownSession.diskId);
    }
  }
  const endedDiskIds = [...ended].filter((diskId) => tx.devices.count("unknownByDisk", diskId) === 0);
  return { deviceIds, diskIds: [...diskIds].sort(), endedDiskIds };
}
