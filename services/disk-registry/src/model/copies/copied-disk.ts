import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";

/**
 * State of a copy of a part, as the registry knows it.
 * COUNTS   has every acknowledged write; one of these is read, all are written before a write is acknowledged
 * RESYNC   had every acknowledged write until an unclean end; written behind its copied regions, never read
 * COPYING  has nothing that is believed; written behind its copied regions, never read, dropped without asking
 * DROPPED  had every acknowledged write until it was dropped; neither read nor written until it is copied anew
 * LEAVING  is no longer needed; freed once the holder follows a revision without it
 */
export type CopyState = "COUNTS" | "RESYNC" | "COPYING" | "DROPPED" | "LEAVING";

export interface Copy {
  readonly deviceId: DeviceId;
  readonly state: CopyState;
  /** Set with RESYNC and DROPPED: time of the unclean end or of the drop. */
  readonly sinceMs?: number;
  /** Session of the copy, later than the publication's, because its device may have seen later ones; absent for that. */
  readonly session?: number;
  /** Set with RESYNC and COPYING once the device lets the holder write. */
  readonly isOpen?: true;
  /** Set with RESYNC and DROPPED once its old bytes were partly replaced. */
  readonly isMixed?: true;
  /** Set with COUNTS since the holder's EQUAL or a person's word, until the holder has confirmed that its own record says so, too. */
  readonly isUnrecorded?: true;
}

/** Consecutive bytes of a disk with all their copies. */
export interface CopiedPart {
  /** Number of the last change of the copies that count, and of those that records must name beside them. Never issued twice, also not after a restore. */
  readonly layout: number;
  readonly copies: readonly Copy[];
  /** Device that the part is to leave once enough others count. */
  readonly moveFrom?: DeviceId | undefined;
}

/**
 * PUBLISHING  the copies are asked for the session; nothing is read yet
 * PUBLISHED   the holder may serve the disk
 * ENDING      the holder is asked to end; its report of a clean end still counts
 * FENCING     a higher session is being opened; no report of the former holder counts
 */
type PublicationState = "PUBLISHING" | "PUBLISHED" | "ENDING" | "FENCING";

export interface CopiedPublication {
  readonly hostId: HostId;
  readonly state: PublicationState;
  readonly session: number;
  /** Number of changes of the copies within the session. */
  readonly revision: number;
  /** Last revision that the holder follows. */
  readonly confirmedRevision: number;
  /** True when nobody uses the disk: the holder only copies. */
  readonly isRepair?: true;
}

/** A snapshot or clone that is being made: a further copy of each part, on which the holder cuts at one moment. */
export interface SnapshotJob {
  readonly jobId: string;
  /** Disk that the targets become. */
  readonly diskId: DiskId;
  /** Session of the publication in which the job began; another one ends the job. */
  readonly session: number;
  /** Session of the targets, and their layout once they are a disk. */
  readonly targetSession: number;
  /** One device for each part. */
  readonly targets: readonly DeviceId[];
  /** Targets that let the holder write. */
  readonly granted: readonly DeviceId[];
}

/** A disk with copies. */
export interface CopiedDisk {
  readonly diskId: DiskId;
  /** Number of copies of each part that are to count. */
  readonly copiesWished: number;
  readonly parts: readonly CopiedPart[];
  readonly publication?: CopiedPublication | undefined;
  /** Highest session issued for the disk. */
  readonly lastSession: number;
  /** True from the first writable export until its holder has reported a clean end. */
  readonly isUnclean?: true | undefined;
  /** True from the start of a registry whose store may be old, until the records of the copies were heard. */
  readonly isUnproven?: true | undefined;
  readonly snapshot?: SnapshotJob | undefined;
}

/** Returns the devices of the part's copies in this state. */
export function devicesIn({ copies }: CopiedPart, state: CopyState): readonly DeviceId[] {
  return copies.filter((copy) => copy.state === state).map(({ deviceId }) => deviceId);
}

export function copyOf({ copies }: CopiedPart, deviceId: DeviceId): Copy | undefined {
  return copies.find((copy) => copy.deviceId === deviceId);
}

/** Returns the disk with the part replaced by the result of `change`. */
export function changePart(disk: CopiedDisk, index: number, change: (part: CopiedPart) => CopiedPart): CopiedDisk {
  return { ...disk, parts: disk.parts.map((part, at) => (at === index ? change(part) : part)) };
}

/** Returns the part with the copy on the device replaced by the result of `change`, or removed for undefined. */
export function changeCopy(part: CopiedPart, deviceId: DeviceId, change: (copy: Copy) => Copy | undefined): CopiedPart {
  return {
    ...part,
    copies: part.copies.flatMap((copy) => (copy.deviceId === deviceId ? (change(copy) ?? []) : copy)),
  };
}

/** Returns the disk with the next revision of its publication, which its holder has to follow. */
export function withNextRevision(disk: CopiedDisk): CopiedDisk {
  const { publication } = disk;
  return publication === undefined
    ? disk
    : { ...disk, publication: { ...publication, revision: publication.revision + 1 } };
}

/** Returns whether the words of a holder are about the present state of the publication. */
export function isPresent({ publication }: CopiedDisk, said: { session: number; revision?: number }): boolean {
  if (publication?.state !== "PUBLISHED" && publication?.state !== "ENDING") return false;
  return publication.session === said.session && publication.revision === (said.revision ?? publication.revision);
}
