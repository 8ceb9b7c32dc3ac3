import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { devicesOfHost } from "../devices/device-selection.js";
import { namedDisk } from "../disks/disk-text.js";
import { namedIn, type OwnEvent } from "../events/own-events.js";
import { countingDevices } from "../store/layout.js";
import { disksOn } from "../store/runs.js";
import type { Device, Host, RegistryTables, RegistryTransaction } from "../store/schema.js";

/** A disk of which only these devices, which nobody can read any more, have the bytes. */
export interface LostDisk {
  readonly diskId: DiskId;
  readonly deviceIds: readonly DeviceId[];
}

/** Returns the disks that lose bytes with these devices. Targets and former sources of moves have no bytes that count. */
export function disksLostOn(tables: RegistryTables, devices: readonly Device[]): readonly LostDisk[] {
  const lost = new Map<DiskId, DeviceId[]>();
  for (const device of devices)
    for (const diskId of disksOn([device])) {
      const { deviceId } = device;
      const disk = tables.disks.get(diskId);
      if (disk === undefined || !countingDevices(disk).includes(deviceId)) continue;
      const deviceIds = lost.get(diskId);
      if (deviceIds === undefined) lost.set(diskId, [deviceId]);
      else deviceIds.push(deviceId);
    }
  return [...lost].map(([diskId, deviceIds]) => ({ diskId, deviceIds })).sort((a, b) => (a.diskId < b.diskId ? -1 : 1));
}

/** Lists lost disks with the parts that are lost, and with the host that uses the disk. */
export function lostText(tables: RegistryTables, lost: readonly LostDisk[]): string {
  const texts = lost.map(({ diskId, deviceIds }) => {
    const { parts = [], publication } = tables.disks.get(diskId) ?? {};
    const where = publication === undefined ? "unpublished" : `${publication.state} to ${publication.hostId}`;
    return `${namedDisk(tables, diskId)} (${deviceIds.length} of ${parts.length} parts, on ${named(deviceIds)}; ${where})`;
  });
  return named(texts);
}

/** Returns whether a host that timed out may have lost disks that no event has named yet. */
export function mayHaveLost(tables: RegistryTables, { hostId, removalRequested, lossNoted }: Host): boolean {
  return removalRequested && !lossNoted && tables.devices.count("usedByHost", hostId) > 0;
}

/**
 * Returns an event that names the disks that the removal of a timed-out host has lost, and notes that it did; undefined
 * when there are none, or an earlier event has named them.
 */
export function noteLostDisks(tx: RegistryTransaction, hostId: HostId): OwnEvent | undefined {
  const host = tx.hosts.get(hostId);
  if (host === undefined || !mayHaveLost(tx, host)) return undefined;
  const lost = disksLostOn(tx, devicesOfHost(tx, hostId));
  if (lost.length === 0) return undefined;
  tx.hosts.put({ ...host, lossNoted: true });
  const things = namedIn({
    hostIds: new Set([hostId]),
    deviceIds: new Set(lost.flatMap(({ deviceIds }) => deviceIds)),
    diskIds: new Set(lost.map(({ diskId }) => diskId)),
  });
  const message = `host ${hostId} is ${host.state}, and its removal no longer waits for it: ${lostText(tx, lost)}`;
  return { user: "disk-registry", action: "DisksLost", ...things, answer: "", message };
}
