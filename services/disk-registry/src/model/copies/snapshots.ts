import type { DeviceId } from "@diskmesh/domain";
import { type CopiedDisk, isPresent, type SnapshotJob, withNextRevision } from "./copied-disk.js";

/** Returns the disk with a snapshot that its holder is to make; undefined while it has another, or no holder. */
export function beginSnapshot(
  disk: CopiedDisk,
  { jobId, diskId, targets }: Pick<SnapshotJob, "jobId" | "diskId" | "targets">,
  targetSession: number,
): CopiedDisk | undefined {
  const { publication } = disk;
  if (publication?.state !== "PUBLISHED" || disk.snapshot !== undefined || targets.length !== disk.parts.length)
    return undefined;
  const snapshot = { jobId, diskId, session: publication.session, targetSession, targets, granted: [] };
  return { ...disk, snapshot, lastSession: targetSession };
}

/** Notes that a target lets the holder write; once all do, the holder is told of them. */
export function noteSnapshotGrant(disk: CopiedDisk, deviceId: DeviceId, session: number): CopiedDisk {
  const { snapshot } = disk;
  if (snapshot?.targetSession !== session || snapshot.granted.includes(deviceId)) return disk;
  if (!isPresent(disk, { session: snapshot.session })) return disk;
  const granted = [...snapshot.granted, deviceId];
  const noted = { ...disk, snapshot: { ...snapshot, granted } };
  return granted.length === snapshot.targets.length ? withNextRevision(noted) : noted;
}

/**
 * Takes the holder's word that it has cut: the targets hold the disk of one moment, flushed, and it never writes them
 * again. Returns the source without the job, and the disk that the targets make; undefined when the word is not of the
 * present session and job, so that the targets are freed. A repeated word finds the disk by the job's id.
 */
export function takeCut(
  disk: CopiedDisk,
  said: { readonly jobId: string; readonly session: number },
): { readonly disk: CopiedDisk; readonly snapshot: CopiedDisk } | undefined {
  const { snapshot } = disk;
  if (snapshot?.jobId !== said.jobId || snapshot.session !== said.session || !isPresent(disk, said)) return undefined;
  const { diskId, targets, targetSession } = snapshot;
  return {
    disk: withNextRevision({ ...disk, snapshot: undefined }),
    snapshot: {
      diskId,
      copiesWished: disk.copiesWished,
      lastSession: targetSession,
      parts: targets.map((deviceId) => ({ layout: targetSession, copies: [{ deviceId, state: "COUNTS" }] })),
    },
  };
}

/** Ends a snapshot that its holder cannot make. */
export function endSnapshot(disk: CopiedDisk, said: { readonly jobId: string; readonly session: number }): CopiedDisk {
  if (disk.snapshot?.jobId !== said.jobId || disk.snapshot.session !== said.session) return disk;
  return withNextRevision({ ...disk, snapshot: undefined });
}
