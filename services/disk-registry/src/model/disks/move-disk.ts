import { type DeviceId, type DiskId, type HostId, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import { copyOn } from "../store/layout.js";
import type { Disk, RegistryTransaction } from "../store/schema.js";
import { cancelMoves, requestMoves } from "./moves.js";
import { requireDisk } from "./publications.js";

/** Moves all parts of a disk to the host, or, with an empty id, each away from its present host. */
export function migrateDisk(tx: RegistryTransaction, diskId: DiskId, hostId: HostId | "", nowMs: number): Disk {
  const disk = requireDisk(tx, diskId);
  if (hostId !== "") requireTakesDisk(tx, disk, hostId);
  const isElsewhere = (deviceId: DeviceId): boolean => hostId === "" || tx.devices.get(deviceId)?.hostId !== hostId;
  const where = hostId === "" ? ({ elsewhere: true } as const) : { toHostId: hostId };
  return requestMoves(tx, disk, { reason: "OPERATOR", nowMs, ...where }, isElsewhere);
}

function requireTakesDisk(tx: RegistryTransaction, { diskId, az }: Disk, hostId: HostId): void {
  const host = requireHost(tx, hostId);
  const about = { disk_id: diskId, host_id: hostId };
  if (host.az !== az)
    throw new InvalidStateError(
      `disk ${diskId} is in az ${az}, and host ${hostId} in az ${host.az}: choose a host of the disk's az`,
      { about },
    );
  if (host.removalRequested)
    throw new InvalidStateError(
      `host ${hostId} is to be removed, so disk ${diskId} cannot move there: choose another host, or keep this host with AddHost`,
      { reason: "HOST_BEING_REMOVED", about },
    );
}

/** Moves the part on the device to any other device. */
export function replaceDevice(tx: RegistryTransaction, diskId: DiskId, deviceId: DeviceId, nowMs: number): Disk {
  const disk = requireDisk(tx, diskId);
  const copy = copyOn(disk, deviceId);
  const about = { disk_id: diskId, device_id: deviceId };
  if (copy === undefined) throw new NotFoundError(`disk ${diskId} has no part on device ${deviceId}`, { about });
  if (copy.state !== "COUNTS")
    throw new InvalidStateError(
      `device ${deviceId} is ${copy.state} in disk ${diskId}, whose bytes another device has: replace that device, or call CancelMove`,
      { about },
    );
  return requestMoves(tx, disk, { reason: "OPERATOR", nowMs }, (each) => each === deviceId);
}

/** Cancels all moves of the disk that are not cut over. */
export function cancelDiskMoves(tx: RegistryTransaction, diskId: DiskId): Disk {
  return cancelMoves(tx, requireDisk(tx, diskId), () => true);
}
