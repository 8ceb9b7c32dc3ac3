import type { DeviceId, DiskId } from "@diskmesh/domain";
import { movedPart } from "../devices/unknown-disks.js";
import { putPublication } from "../disks/publications.js";
import type { Part } from "../store/disk-parts.js";
import { partSizeBytes } from "../store/layout.js";
import { allDirty, diskOn, disksOn, holds, holdsAnyDisk, withDisk } from "../store/runs.js";
import type { Device, RegistryTransaction } from "../store/schema.js";

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
 * is discarded. `agent`: the agent is right. The registry's disk loses the device, which stays marked until a `registry`
 * decision. A device to which a part of a disk has certainly moved becomes that disk's.
 */
export function decideUnknown(
  tx: RegistryTransaction,
  deviceIds: readonly DeviceId[],
  verdict: UnknownDiskVerdict,
): Decided {
  const decided: DeviceId[] = [];
  const [diskIds, ended] = [new Set<DiskId>(), new Set<DiskId>()];
  for (const deviceId of deviceIds) {
    const device = tx.devices.get(deviceId);
    if (device?.unknownSession === undefined) continue;
    const believed = verdict === "agent" ? believeAgent(tx, device) : undefined;
    if (verdict === "agent" && believed === undefined) continue;
    decided.push(deviceId);
    for (const diskId of believed === undefined ? disksOn([device]) : [believed]) diskIds.add(diskId);
    if (verdict === "agent") continue;
    forgetSession(tx, device);
    if (device.unknownSession.diskId !== "") ended.add(device.unknownSession.diskId);
  }
  const endedDiskIds = [...ended].filter((diskId) => tx.devices.count("unknownByDisk", diskId) === 0);
  return { deviceIds: decided, diskIds: [...diskIds].sort(), endedDiskIds };
}

/** Returns the disk that lost or got the device; undefined when the decision changes nothing. */
function believeAgent(tx: RegistryTransaction, device: Device): DiskId | undefined {
  // The session is of a range, and that it is of the bytes of a disk is not known.
  if (device.runs.some(({ count, diskId }) => count !== undefined && diskId !== "")) return undefined;
  if (holdsAnyDisk(device)) return loseDevice(tx, device);
  const moved = movedPart(tx, device);
  if (typeof moved === "string") return undefined;
  const { disk, index, former } = moved;
  if (holds(former, disk.diskId)) loseDevice(tx, former);
  forgetSession(tx, withDisk(device, disk.diskId));
  const parts = disk.parts.map((part, at): Part => {
    if (at !== index) return part;
    const { move: _, ...rest } = part;
    return { ...rest, sizeBytes: partSizeBytes(tx, part), copies: [{ deviceId: device.deviceId, state: "COUNTS" }] };
  });
  const put = { ...disk, parts };
  // A publication that is under way gets a session that no try with the former device has had.
  if (put.publication === undefined) tx.disks.put(put);
  else putPublication(tx, put, put.publication);
  return disk.diskId;
}

function loseDevice(tx: RegistryTransaction, device: Device): DiskId {
  tx.devices.put(allDirty(device));
  return diskOn(device) as DiskId;
}

/** Has the session that the agent remembers count as issued; else the next registration would mark the device again. */
function forgetSession(tx: RegistryTransaction, { unknownSession, ...device }: Device): void {
  const lastSessionNumber = Math.max(device.lastSessionNumber ?? 0, unknownSession?.sessionNumber ?? 0);
  tx.devices.put({ ...device, lastSessionNumber });
}
