import type { DiskId, HostId } from "@diskmesh/domain";
import type { Disk, Publication, PublicationProblem, RegistryTables, RegistryTransaction } from "../store/schema.js";

/** Why users of a host cannot use a disk that it is to serve, as its agent reports. */
export interface DiskProblem extends PublicationProblem {
  readonly diskId: DiskId;
  readonly sessionNumber: number;
}

/** Returns whether the report differs from what is stored of the host's disks. Most hosts have no problem. */
export function areOtherProblems(tables: RegistryTables, hostId: HostId, reported: readonly DiskProblem[]): boolean {
  return changesOf(tables, hostId, reported).length > 0;
}

/** Stores the report in the publications of the host. */
export function noteProblems(tx: RegistryTransaction, hostId: HostId, reported: readonly DiskProblem[]): void {
  for (const disk of changesOf(tx, hostId, reported)) tx.disks.put(disk);
}

/** Returns the disks with their problem as it is now, as far as that has changed. */
function changesOf(tables: RegistryTables, hostId: HostId, reported: readonly DiskProblem[]): readonly Disk[] {
  const told = new Set(reported.map(({ diskId }) => diskId));
  const ended = [...tables.disks.by("byProblemHost", hostId)].filter(({ diskId }) => !told.has(diskId));
  const others = reported.flatMap(({ diskId, sessionNumber, message, sinceMs }): Disk[] => {
    const disk = tables.disks.get(diskId);
    const publication = disk?.publication;
    if (disk === undefined || publication?.hostId !== hostId || publication.state !== "PUBLISHED") return [];
    // A report of a former session says nothing about this one.
    if (publication.sessionNumber !== sessionNumber || publication.problem?.message === message) return [];
    return [withProblem(disk, publication, { message, sinceMs: publication.problem?.sinceMs ?? sinceMs })];
  });
  return [
    ...ended.flatMap((disk) => (disk.publication ? [withProblem(disk, disk.publication, undefined)] : [])),
    ...others,
  ];
}

function withProblem(
  disk: Disk,
  { problem: _, ...publication }: Publication,
  problem: PublicationProblem | undefined,
): Disk {
  return { ...disk, publication: { ...publication, ...(problem && { problem }) } };
}
