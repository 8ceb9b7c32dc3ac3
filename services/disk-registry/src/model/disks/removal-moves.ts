import type { DeviceId, DiskId } from "@diskmesh/domain";
import { countingCopy } from "../store/layout.js";
import { disksOn } from "../store/runs.js";
import type { Device, Disk, RegistryTransaction } from "../store/schema.js";
import { cancelMoves, requestMoves } from "./move-disk.js";

/** Has the disks leave devices that are to be removed. */
export function moveAway(tx: RegistryTransaction, devices: readonly Device[], nowMs: number): void {
  eachDisk(tx, devices, (disk, deviceIds) =>
    requestMoves(tx, disk, { reason: "REMOVAL", nowMs }, (deviceId) => deviceIds.has(deviceId)),
  );
}

/** Cancels the moves from devices that are no longer to be removed. What is cut over stays. */
export function stay(tx: RegistryTransaction, devices: readonly Device[]): void {
  const kept = devices.filter(({ deviceId, hostId }) => {
    const isLeaving = tx.devices.get(deviceId)?.removalRequested;
    return !isLeaving && !tx.hosts.get(hostId)?.removalRequested;
  });
  eachDisk(tx, kept, (disk, deviceIds) =>
    cancelMoves(tx, disk, (part) => part.move?.reason === "REMOVAL" && deviceIds.has(countingCopy(part).deviceId)),
  );
}

/**
 * Has the disks leave devices that are failing by themselves. `isNew`: the devices were well until now. Otherwise a part
 * stays whose move an operator has cancelled.
 */
export function leaveFailing(
  tx: RegistryTransaction,
  devices: readonly Device[],
  { nowMs, isNew }: { readonly nowMs: number; readonly isNew: boolean },
): void {
  eachDisk(tx, devices, (disk, deviceIds) => {
    const staying = new Set(isNew ? [] : disk.parts.map(({ staysOn }) => staysOn));
    const isLeft = (deviceId: DeviceId): boolean => deviceIds.has(deviceId) && !staying.has(deviceId);
    requestMoves(tx, disk, { reason: "HEALTH", nowMs }, isLeft);
  });
}

function eachDisk(
  tx: RegistryTransaction,
  devices: readonly Device[],
  act: (disk: Disk, deviceIds: ReadonlySet<DeviceId>) => void,
): void {
  const byDisk = new Map<DiskId, Set<DeviceId>>();
  for (const device of devices)
    for (const diskId of disksOn([device])) {
      const deviceIds = byDisk.get(diskId);
      if (deviceIds === undefined) byDisk.set(diskId, new Set([device.deviceId]));
      else deviceIds.add(device.deviceId);
    }
  for (const [diskId, deviceIds] of byDisk) {
    const disk = tx.disks.get(diskId);
    if (disk !== undefined) act(disk, deviceIds);
  }
}
