import type { DeviceId, DiskId } from "@diskmesh/domain";
import type { Copy, Part } from "./disk-parts.js";
import { runAt, withDisk, withRun } from "./runs.js";
import type { Disk, RegistryTables, RegistryTransaction } from "./schema.js";
import { partOffsetBytes, type Space } from "./slices.js";

/** Returns a part for each space, in the order of the disk's bytes. */
export function partsOn(spaces: readonly Pick<Space, "deviceId" | "sizeBytes" | "slices">[]): readonly Part[] {
  return spaces.map((space) => ({ sizeBytes: space.sizeBytes, copies: [copyAt(space, "COUNTS")] }));
}

export function copyAt({ deviceId, slices }: Pick<Space, "deviceId" | "slices">, state: Copy["state"]): Copy {
  return { deviceId, ...(slices !== undefined && { first: slices.first }), state };
}

/** Gives the space to the disk. */
export function takeSpace(tx: RegistryTransaction, { deviceId, slices }: Space, diskId: DiskId): void {
  const device = tx.devices.get(deviceId);
  if (device !== undefined) tx.devices.put(withDisk(device, diskId, slices));
}

/** Returns the copy that has the bytes of the disk. Throws when the document is damaged, rather than guess. */
export function countingCopy({ copies }: Part): Copy {
  const [copy, ...others] = copies.filter(({ state }) => state === "COUNTS");
  if (copy === undefined || others.length > 0)
    throw new Error(`a part of a disk has ${others.length + (copy ? 1 : 0)} copies that count`);
  return copy;
}

/** Returns the devices that have the bytes of the disk, in order, each once. */
export function countingDevices({ parts }: Pick<Disk, "parts">): readonly DeviceId[] {
  return [...new Set(parts.map((part) => countingCopy(part).deviceId))];
}

/** Returns the devices of all copies, each once: each has a run of the disk. */
export function allDevices({ parts }: Pick<Disk, "parts">): readonly DeviceId[] {
  return [...new Set(parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId)))];
}

/**
 * Returns a copy of the disk on the device, one that counts where there is one; undefined when the disk has none there.
 * All copies that count on one device have one session.
 */
export function copyOn({ parts }: Pick<Disk, "parts">, deviceId: DeviceId): Copy | undefined {
  const there = parts.flatMap(({ copies }) => copies.filter((copy) => copy.deviceId === deviceId));
  return there.find(({ state }) => state === "COUNTS") ?? there[0];
}

/**
 * Returns a copy of the disk that has bytes of the run at that slice of the device; undefined for none. All copies on one
 * run have one session, as long as they are not LEAVING.
 */
export function copyAtSlice({ parts }: Pick<Disk, "parts">, deviceId: DeviceId, first: number): Copy | undefined {
  const copies = parts.flatMap((part) => part.copies);
  const there = copies.filter((copy) => copy.deviceId === deviceId && (copy.first ?? 0) === first);
  return there.find(({ state }) => state !== "LEAVING") ?? there[0];
}

/** Returns the size of a part: 0 when it is not recorded, and the device that has the bytes was purged. */
export function partSizeBytes(tables: RegistryTables, part: Part): number {
  return part.sizeBytes ?? tables.devices.get(countingCopy(part).deviceId)?.sizeBytes ?? 0;
}

/** Returns where the copy's bytes of the disk begin on its device; 0 for a device that was purged. */
export function offsetOf(
  tables: RegistryTables,
  { diskId }: Disk,
  { deviceId, first = 0, skipBytes = 0 }: Copy,
): number {
  const device = tables.devices.get(deviceId);
  const run = device && runAt(device, diskId, first);
  return device === undefined || run === undefined ? 0 : partOffsetBytes(device, run) + skipBytes;
}

/** Returns the last session of the copy's run; 0 when none was issued. */
export function sessionOf(disk: Pick<Disk, "publication" | "lastSessionNumber">, copy: Copy | undefined): number {
  return copy?.sessionNumber ?? disk.publication?.sessionNumber ?? disk.lastSessionNumber ?? 0;
}

/** Returns the disk with each copy replaced by the result of `change`. */
export function withCopies<T extends Pick<Disk, "parts">>(disk: T, change: (copy: Copy) => Copy): T {
  return { ...disk, parts: disk.parts.map((part) => ({ ...part, copies: part.copies.map(change) })) };
}

/**
 * Takes the disk off the copy's run, which is erased before its next use. Returns false for a device that was purged:
 * it may exist again, without a disk or with another one.
 */
export function freeCopy(tx: RegistryTransaction, disk: Disk, copy: Copy): boolean {
  const { deviceId, first = 0 } = copy;
  const device = tx.devices.get(deviceId);
  const run = device && runAt(device, disk.diskId, first);
  if (device === undefined || run === undefined) return false;
  const lastSessionNumber = Math.max(device.lastSessionNumber ?? 0, disk.lastSessionNumber ?? 0) || undefined;
  const dirty = { ...run, diskId: "", lastSessionNumber: sessionOf(disk, copy) || undefined } as const;
  tx.devices.put({ ...withRun(device, dirty), lastSessionNumber });
  return true;
}

/** Takes the disk off the runs of the copies on which it has none left. Returns the disk that is left. */
export function leftBy(tx: RegistryTransaction, before: Disk, copies: readonly Copy[], disk: Disk): Disk {
  for (const copy of copies)
    if (copyAtSlice(disk, copy.deviceId, copy.first ?? 0) === undefined) freeCopy(tx, before, copy);
  return disk;
}

/** Frees the former sources of moves. Returns the disk without them. */
export function withoutLeaving(tx: RegistryTransaction, disk: Disk): Disk {
  const isLeaving = ({ state }: Copy): boolean => state === "LEAVING";
  const leaving = disk.parts.flatMap(({ copies }) => copies.filter(isLeaving));
  if (leaving.length === 0) return disk;
  const parts = disk.parts.map((part) => ({ ...part, copies: part.copies.filter((copy) => !isLeaving(copy)) }));
  return leftBy(tx, disk, leaving, { ...disk, parts });
}

/** Returns the disk with the part replaced by the result of `change`. */
export function withPart(disk: Disk, index: number, change: (part: Part) => Part): Disk {
  return { ...disk, parts: disk.parts.map((part, at) => (at === index ? change(part) : part)) };
}

/** Returns the disk with the part cut into parts of these sizes, which stay on the runs of its copies. */
export function withSplit(disk: Disk, index: number, sizes: readonly number[]): Disk {
  const parts = disk.parts.flatMap((part, at) => {
    if (at !== index) return part;
    let startBytes = 0;
    return sizes.map((sizeBytes): Part => {
      const copies = part.copies.map((copy) => skipping(copy, startBytes));
      startBytes += sizeBytes;
      return { ...part, sizeBytes, copies };
    });
  });
  return { ...disk, parts };
}

function skipping(copy: Copy, startBytes: number): Copy {
  return startBytes === 0 ? copy : { ...copy, skipBytes: (copy.skipBytes ?? 0) + startBytes };
}

/**
 * Returns the disk for a new session of all its devices. Former sources are freed, because their holder is fenced off
 * or gets the new layout. Contents of targets are forgotten: their copies begin anew.
 */
export function forNewSession(tx: RegistryTransaction, disk: Disk): Disk {
  return withCopies(withoutLeaving(tx, disk), ({ sessionNumber: _, mark: __, ...copy }) => copy);
}
