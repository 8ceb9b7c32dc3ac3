import type { DeviceId } from "@diskmesh/domain";
import type { Copy, Part } from "./disk-parts.js";
import { holds, withoutDisk } from "./runs.js";
import type { Device, Disk, RegistryTables, RegistryTransaction } from "./schema.js";

/** Returns a part for each device, in the order of the disk's bytes. */
export function partsOn(devices: readonly Pick<Device, "deviceId" | "sizeBytes">[]): readonly Part[] {
  return devices.map(({ deviceId, sizeBytes }) => ({ sizeBytes, copies: [{ deviceId, state: "COUNTS" }] }));
}

/** Returns the copy that has the bytes of the disk. Throws when the document is damaged, rather than guess. */
export function countingCopy({ copies }: Part): Copy {
  const [copy, ...others] = copies.filter(({ state }) => state === "COUNTS");
  if (copy === undefined || others.length > 0)
    throw new Error(`a part of a disk has ${others.length + (copy ? 1 : 0)} copies that count`);
  return copy;
}

/** Returns the devices that have the bytes of the disk, in order. */
export function countingDevices({ parts }: Pick<Disk, "parts">): readonly DeviceId[] {
  return parts.map((part) => countingCopy(part).deviceId);
}

/** Returns the devices of all copies: each has the disk's id. */
export function allDevices({ parts }: Pick<Disk, "parts">): readonly DeviceId[] {
  return parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId));
}

/** Returns the disk's copy on the device; undefined when the disk has none there. */
export function copyOn({ parts }: Pick<Disk, "parts">, deviceId: DeviceId): Copy | undefined {
  for (const { copies } of parts) {
    const found = copies.find((copy) => copy.deviceId === deviceId);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Returns the size of a part: 0 when it is not recorded, and the device that has the bytes was purged. */
export function partSizeBytes(tables: RegistryTables, part: Part): number {
  return part.sizeBytes ?? tables.devices.get(countingCopy(part).deviceId)?.sizeBytes ?? 0;
}

/** Returns the disk with each copy replaced by the result of `change`. */
export function withCopies<T extends Pick<Disk, "parts">>(disk: T, change: (copy: Copy) => Copy): T {
  return { ...disk, parts: disk.parts.map((part) => ({ ...part, copies: part.copies.map(change) })) };
}

/**
 * Takes the disk off the device, which is erased before its next use. Returns false for a device that was purged: it
 * may exist again, without a disk or with another one.
 */
export function freeDevice(tx: RegistryTransaction, disk: Disk, deviceId: DeviceId): boolean {
  const device = tx.devices.get(deviceId);
  if (device === undefined || !holds(device, disk.diskId)) return false;
  const { lastSessionNumber = device.lastSessionNumber } = disk;
  tx.devices.put({ ...withoutDisk(device, disk.diskId), lastSessionNumber });
  return true;
}

/** Frees the former sources of moves. Returns the disk without them. */
export function withoutLeaving(tx: RegistryTransaction, disk: Disk): Disk {
  const isLeaving = ({ state }: Copy): boolean => state === "LEAVING";
  if (!disk.parts.some(({ copies }) => copies.some(isLeaving))) return disk;
  for (const { deviceId } of disk.parts.flatMap(({ copies }) => copies.filter(isLeaving)))
    freeDevice(tx, disk, deviceId);
  return { ...disk, parts: disk.parts.map((part) => ({ ...part, copies: part.copies.filter((c) => !isLeaving(c)) })) };
}

/**
 * Returns the disk for a new session of all its devices. Former sources are freed, because their holder is fenced off
 * or gets the new layout. Contents of targets are forgotten: their copies begin anew.
 */
export function forNewSession(tx: RegistryTransaction, disk: Disk): Disk {
  return withCopies(withoutLeaving(tx, disk), ({ sessionNumber: _, ...copy }) => copy);
}
