import { AlreadyExistsError, type DeviceId, type DiskId, InvalidStateError } from "@diskmesh/domain";
import { DELETED, type Deletion } from "../store/deletion.js";
import { countingDevices, freeCopy } from "../store/layout.js";
import type { Disk, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { deleteNow, keptText } from "./disk-text.js";
import { howToEnd, requireKeptDisk } from "./publications.js";

/** A disk that is deleted and kept. */
export type DeletedDisk = Disk & { readonly deleted: Deletion };

/** A deletion's caller and time, and the time for which it keeps the disk. */
export interface Deleting {
  readonly by: string;
  readonly nowMs: number;
  /** Returns the time in ms for which the pool's deleted disks are kept; 0 for not at all. */
  readonly graceMsOf: (pool: string) => number;
  /** True frees the disk at once, also one that was deleted before. */
  readonly skipGrace: boolean;
}

/** Result of a deletion. */
export interface Deleted {
  /** Devices to erase; none while the disk is kept. */
  readonly freed: readonly DeviceId[];
  /** Time until which the disk is kept; undefined when it is not. */
  readonly untilMs: number | undefined;
}

/** Deletes a disk at once, or keeps it for the grace of its pool. Changes nothing when it does not exist or is deleted. */
export function deleteDisk(
  tx: RegistryTransaction,
  diskId: DiskId,
  { by, nowMs, graceMsOf, skipGrace }: Deleting,
): Deleted {
  const disk = tx.disks.get(diskId);
  if (disk === undefined) return { freed: [], untilMs: undefined };
  const { publication, deleted, requested } = disk;
  if (publication !== undefined) {
    throw new InvalidStateError(
      `disk ${diskId} is ${publication.state} to host ${publication.hostId}: ${howToEnd(tx, publication)}`,
      {
        reason: "DISK_IN_USE",
        about: { disk_id: diskId, host_id: publication.hostId },
      },
    );
  }
  const graceMs = skipGrace ? 0 : graceMsOf(requested.pool);
  if (deleted !== undefined && !skipGrace) return { freed: [], untilMs: deleted.untilMs };
  if (graceMs === 0) return { freed: freeDisk(tx, disk), untilMs: undefined };
  const untilMs = nowMs + graceMs;
  tx.disks.put({ ...disk, deleted: { by, atMs: nowMs, untilMs } });
  return { freed: [], untilMs };
}

/** Frees the disk's devices and marks them dirty. Returns the devices to erase. */
export function freeDisk(tx: RegistryTransaction, disk: Disk): readonly DeviceId[] {
  const freed: DeviceId[] = [];
  for (const copy of disk.parts.flatMap(({ copies }) => copies))
    if (freeCopy(tx, disk, copy)) freed.push(copy.deviceId);
  tx.disks.delete(disk.diskId);
  return freed;
}

/** Brings a deleted disk back. Changes nothing for a disk that is not deleted. */
export function undeleteDisk(tx: RegistryTransaction, diskId: DiskId): Disk {
  const { deleted, ...disk } = requireKeptDisk(tx, diskId);
  if (deleted !== undefined) tx.disks.put(disk);
  return disk;
}

/** Returns whether lists have the disk: deleted ones only where they are asked for. */
export function isListed({ deleted }: Disk, showDeleted: boolean): boolean {
  return showDeleted || deleted === undefined;
}

/** Returns the deleted disks, those first that were deleted first. */
export function deletedDisks({ disks }: RegistryTables): readonly DeletedDisk[] {
  return [...disks.by("byDeletion", DELETED)].filter(isDeleted).sort((a, b) => a.deleted.atMs - b.deleted.atMs);
}

export function isDeleted(disk: Disk): disk is DeletedDisk {
  return disk.deleted !== undefined;
}

/**
 * Returns whether the deleted disk may be erased. It may not while a device of it remembers a session that was never
 * issued, because an operator decides whose bytes these are, nor while it is fenced off a host.
 */
export function mayBeErased({ devices }: RegistryTables, disk: DeletedDisk): boolean {
  const isUnknown = countingDevices(disk).some((deviceId) => devices.get(deviceId)?.unknownSession !== undefined);
  return disk.publication === undefined && !isUnknown;
}

/** Returns the error of a creation under the id of a deleted disk. */
export function stillKept({ diskId, deleted }: DeletedDisk): Error {
  const message = `${keptText(diskId, deleted)}, or erase it with \`${deleteNow(diskId)}\`, or choose another id`;
  return new AlreadyExistsError(message, { about: { disk_id: diskId } });
}
