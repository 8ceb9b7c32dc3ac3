import { type DeviceId, type DiskId, type HostId, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { requireHost } from "../devices/device-selection.js";
import type { Move, MoveReason, Part } from "../store/disk-parts.js";
import { copyOn, countingCopy, withPart } from "../store/layout.js";
import type { Disk, RegistryTransaction } from "../store/schema.js";
import { withoutTarget } from "./moves.js";
import { requireDisk, requireKeptDisk } from "./publications.js";

export interface MoveRequest {
  readonly reason: MoveReason;
  readonly nowMs: number;
  readonly toHostId?: HostId | undefined;
  readonly elsewhere?: true | undefined;
}

/** Stores that the parts on these devices are to move. A move that exists goes on, unless an operator wants another. */
export function requestMoves(
  tx: RegistryTransaction,
  before: Disk,
  { nowMs, ...wish }: MoveRequest,
  isMeant: (deviceId: DeviceId) => boolean,
): Disk {
  let disk = before;
  for (const [index, { move, copies }] of before.parts.entries()) {
    const isWished = copies.some(({ deviceId, state }) => state === "COUNTS" && isMeant(deviceId));
    if (!isWished || (move !== undefined && (wish.reason !== "OPERATOR" || isSameWish(move, wish)))) continue;
    const kept = move === undefined ? disk : withoutTarget(tx, disk, index);
    const wanted: Move = { ...wish, requestedAtMs: nowMs, attempts: 0, lastError: "" };
    disk = withPart(kept, index, (part) => ({ ...part, move: wanted }));
  }
  if (disk !== before) tx.disks.put(disk);
  return disk;
}

function isSameWish(move: Move, { reason, toHostId, elsewhere }: Omit<MoveRequest, "nowMs">): boolean {
  return move.reason === reason && move.toHostId === toHostId && move.elsewhere === elsewhere;
}

/** Ends the moves that are meant and not cut over; their targets are freed. */
export function cancelMoves(tx: RegistryTransaction, before: Disk, isMeant: (part: Part) => boolean): Disk {
  let disk = before;
  for (const [index, part] of before.parts.entries()) {
    if (part.move === undefined || !isMeant(part)) continue;
    disk = withPart(withoutTarget(tx, disk, index), index, withoutMove);
  }
  if (disk !== before) tx.disks.put(disk);
  return disk;
}

/** Returns the part without its move. A move for the health of its device does not begin again by itself. */
function withoutMove({ move, ...part }: Part): Part {
  return move?.reason === "HEALTH" ? { ...part, staysOn: countingCopy(part).deviceId } : part;
}

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

/** Cancels all moves of the disk that are not cut over, also of a deleted one. */
export function cancelDiskMoves(tx: RegistryTransaction, diskId: DiskId): Disk {
  return cancelMoves(tx, requireKeptDisk(tx, diskId), () => true);
}
