import { type DiskId, type IoLimits, sameIoLimits } from "@diskmesh/domain";
import type { Disk, Publication, RegistryTransaction } from "../store/schema.js";
import { isCurrent, requireDisk } from "./publications.js";

/** Changes of a disk that its host applies to the running export, within the session. */

/** Replaces the limits of a disk's I/O. A host that serves the disk, or begins to, gets a new revision. */
export function setDiskLimits(tx: RegistryTransaction, diskId: DiskId, limits: IoLimits | undefined): Disk {
  const before = requireDisk(tx, diskId);
  if (sameIoLimits(before.limits, limits)) return before;
  const { limits: _, ...rest } = before;
  const disk = withNextRevision(limits === undefined ? rest : { ...rest, limits });
  tx.disks.put(disk);
  return disk;
}

function withNextRevision(disk: Disk): Disk {
  const { publication } = disk;
  if (publication === undefined || publication.state === "UNPUBLISHING") return disk;
  const next: Publication = { ...publication, revision: (publication.revision ?? 0) + 1 };
  return { ...disk, publication: next };
}

/** Records that the host serves the disk as of the revision of `seen`, unless the session has ended. */
export function completeChange(tx: RegistryTransaction, diskId: DiskId, seen: Publication): void {
  const disk = tx.disks.get(diskId);
  if (disk?.publication === undefined || !isCurrent(tx, diskId, seen)) return;
  const { pending: _, ...publication } = disk.publication;
  const confirmed = { confirmedRevision: seen.revision, attempts: 0, lastError: "" };
  tx.disks.put({ ...disk, publication: { ...publication, ...confirmed } });
}
