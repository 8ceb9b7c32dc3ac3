import type { DeviceId } from "@diskmesh/domain";
import {
  type CopiedDisk,
  type CopiedPart,
  type Copy,
  changeCopy,
  changePart,
  copyOf,
  devicesIn,
  isPresent,
  withNextRevision,
} from "./copied-disk.js";

/** Returns whether the holder follows the present revision. */
function isFollowed({ publication }: CopiedDisk): boolean {
  return publication?.confirmedRevision === publication?.revision;
}

/** Returns the counting copies that are to stay. */
export function keptCopies(part: CopiedPart): readonly DeviceId[] {
  return devicesIn(part, "COUNTS").filter((deviceId) => deviceId !== part.moveFrom);
}

/**
 * Returns the disk with a copy that is to be filled, on a device that has none of the part that counts. `session` is a
 * new number.
 */
export function addCopy(disk: CopiedDisk, index: number, deviceId: DeviceId, session: number): CopiedDisk {
  return withTarget(disk, index, deviceId, session, (part) => {
    const had = copyOf(part, deviceId);
    const copy = { deviceId, state: "COPYING", session } as const;
    if (had === undefined) return { ...part, copies: [...part.copies, copy] };
    return had.state === "DROPPED" ? changeCopy(part, deviceId, () => copy) : part;
  });
}

/** Returns the disk with a later session for a copy whose device has seen a later one than the copy's. */
export function retryTarget(disk: CopiedDisk, index: number, deviceId: DeviceId, session: number): CopiedDisk {
  return withTarget(disk, index, deviceId, session, (part) =>
    changeCopy(part, deviceId, (copy) => (isTarget(copy) && !copy.isOpen ? { ...copy, session } : copy)),
  );
}

function withTarget(
  disk: CopiedDisk,
  index: number,
  deviceId: DeviceId,
  session: number,
  change: (part: CopiedPart) => CopiedPart,
): CopiedDisk {
  const before = disk.parts[index];
  const changed = changePart(disk, index, change);
  const part = changed.parts[index];
  const isTaken = part !== undefined && part !== before && copyOf(part, deviceId)?.session === session;
  return isTaken ? { ...changed, lastSession: Math.max(disk.lastSession, session) } : disk;
}

/** Returns whether the copy is filled, or to be. */
function isTarget({ state }: Copy): boolean {
  return state === "COPYING" || state === "RESYNC";
}

/** Returns the session that the device of the copy is asked for, or has granted. */
export function sessionOfCopy({ publication }: CopiedDisk, { session }: Copy): number {
  return session ?? publication?.session ?? 0;
}

/** Notes that the device of a copy that is to be filled lets the holder write. */
export function noteTargetGrant(
  disk: CopiedDisk,
  index: number,
  deviceId: DeviceId,
  { session, layout }: { readonly session: number; readonly layout: number },
): CopiedDisk {
  const part = disk.parts[index];
  const copy = part && copyOf(part, deviceId);
  if (disk.publication?.state !== "PUBLISHED" || copy === undefined || !isTarget(copy)) return disk;
  if (copy.isOpen || sessionOfCopy(disk, copy) !== session) return disk;
  const mixed = copy.state === "RESYNC" && ({ isMixed: true } as const);
  return withNextRevision(
    changePart(disk, index, (each) => ({
      ...changeCopy(each, deviceId, () => ({ ...copy, ...mixed, isOpen: true })),
      layout,
    })),
  );
}

/**
 * Takes the holder's word that a copy is equal: every region was copied and flushed, and from then on a write needs it.
 * Returns the disk in which it counts; undefined when the word is not of the present session and revision.
 */
export function noteEqual(
  disk: CopiedDisk,
  said: { readonly part: number; readonly deviceId: DeviceId; readonly session: number; readonly revision: number },
  layout: number,
): CopiedDisk | undefined {
  const part = disk.parts[said.part];
  const copy = part && copyOf(part, said.deviceId);
  if (disk.publication?.state !== "PUBLISHED" || !isPresent(disk, said)) return undefined;
  if (copy === undefined || !isTarget(copy) || !copy.isOpen) return undefined;
  return withNextRevision(
    changePart(disk, said.part, (each) => ({
      ...changeCopy(each, said.deviceId, ({ deviceId, session }) => ({
        deviceId,
        state: "COUNTS",
        isUnrecorded: true,
        ...(session !== undefined && { session }),
      })),
      layout,
    })),
  );
}

/**
 * Returns the disk in which a counting copy is LEAVING; undefined while the part cannot do without it. The holder must
 * follow the layout in which the others count, so that their records name each other: a chain of layouts in which two
 * neighbours have no copy in common cannot be followed after a restore.
 */
export function leaveCopy(disk: CopiedDisk, index: number, deviceId: DeviceId, layout: number): CopiedDisk | undefined {
  const part = disk.parts[index];
  if (part === undefined || disk.publication?.state !== "PUBLISHED" || copyOf(part, deviceId)?.state !== "COUNTS")
    return undefined;
  if (devicesIn(part, "COUNTS").length <= disk.copiesWished || !isFollowed(disk)) return undefined;
  return withNextRevision(
    changePart(disk, index, (each) => ({
      ...changeCopy(each, deviceId, () => ({ deviceId, state: "LEAVING" })),
      layout,
    })),
  );
}

/** Returns the part's copies that nobody needs or writes any more: they may be erased. */
export function freeable(disk: CopiedDisk, index: number): readonly DeviceId[] {
  const { publication, parts } = disk;
  const part = parts[index];
  if (part === undefined) return [];
  const isDone = publication === undefined || (publication.state === "PUBLISHED" && isFollowed(disk));
  return isDone ? devicesIn(part, "LEAVING") : [];
}

/** Returns the disk without a copy that was erased. */
export function noteFreed(disk: CopiedDisk, index: number, deviceId: DeviceId): CopiedDisk {
  return changePart(disk, index, (part) =>
    changeCopy(part, deviceId, (copy) => (copy.state === "LEAVING" ? undefined : copy)),
  );
}

/**
 * Returns the disk without the copies of a part that it does not need: those that are filled or remembered once enough
 * others count, and those that cannot be filled where they are.
 */
export function leaveSurplus(disk: CopiedDisk, index: number, isFit: (deviceId: DeviceId) => boolean): CopiedDisk {
  const part = disk.parts[index];
  if (part === undefined || disk.publication?.state !== "PUBLISHED") return disk;
  const isEnough = keptCopies(part).length >= disk.copiesWished && isFollowed(disk);
  const leaving = part.copies.filter(({ deviceId, state }) => {
    if (state === "COUNTS" || state === "LEAVING") return false;
    return isEnough || (state === "COPYING" && !isFit(deviceId));
  });
  if (leaving.length === 0) return disk;
  return withNextRevision(
    changePart(disk, index, (each) =>
      leaving.reduce((left, { deviceId }) => changeCopy(left, deviceId, () => ({ deviceId, state: "LEAVING" })), each),
    ),
  );
}
