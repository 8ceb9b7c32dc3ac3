import { isDistinctive } from "@diskmesh/domain";
import type { Device, RegistryTables } from "../store/schema.js";

/** Serial numbers that an operator says several drives bear: they tell nothing. */
export type SharedSerialNumbers = ReadonlySet<string>;

export const NO_SHARED_SERIAL_NUMBERS: SharedSerialNumbers = new Set();

/** A device that lies on the same bytes as another one, and why it is thought so. */
export interface Sharer {
  readonly other: Device;
  readonly why: string;
}

/** Finds the devices that lie on the same bytes as the given one, in operation or not. */
export type FindSharers = (device: Device) => Iterable<Sharer>;

/**
 * The device in operation that lies on the same bytes as this one and has the place, with why it is thought so; undefined
 * when there is none. Of two in operation the one with a disk has it, then the one that is ATTACHED, then the one that was
 * ordered first: so it does not matter which agent registers first.
 *
 * A file identity is told by the kernel of one boot of one machine, so agents of two hosts that tell the same one run on
 * that machine. Two machines that see one file over a network are kept apart by the file's lock, and two that see one
 * drive by its serial number.
 */
export function whoHasTheBytes(findSharers: FindSharers, device: Device): Sharer | undefined {
  for (const found of findSharers(device)) if (hasThePlace(found.other, device)) return found;
  return undefined;
}

/** Looks at each device of the same file or serial number: for one device. `SortedSharers` is for many. */
export function sharersIn(tables: RegistryTables, shared: SharedSerialNumbers): FindSharers {
  return function* (device) {
    const { deviceId, hostId, fileIdentity, serialNumber } = device;
    if (fileIdentity)
      for (const other of tables.devices.by("byFileIdentity", fileIdentity)) {
        const shares = other.hostId !== hostId || overlap(device, other);
        if (shares && other.deviceId !== deviceId) yield { other, why: onOneFile(fileIdentity) };
      }
    if (tellsDrivesApart(serialNumber, shared))
      for (const other of tables.devices.by("bySerialNumber", serialNumber))
        if (other.hostId !== hostId) yield { other, why: ofOneSerialNumber(serialNumber) };
  };
}

export const onOneFile = (fileIdentity: string): string => `both are on the file ${fileIdentity}`;

export const ofOneSerialNumber = (serialNumber: string): string =>
  `both have the serial number ${JSON.stringify(serialNumber)}`;

/** Why a device is refused, for people; undefined when it is not. */
export function whyRefused(findSharers: FindSharers, device: Device): string | undefined {
  const found = whoHasTheBytes(findSharers, device);
  if (found === undefined) return undefined;
  const { other, why } = found;
  const place =
    other.diskId === ""
      ? `is in operation (${other.attachState})`
      : `holds disk ${other.diskId} (${other.attachState})`;
  return (
    `device ${device.deviceId} of host ${device.hostId} lies on the same bytes as device ${other.deviceId} of host ` +
    `${other.hostId}, which ${place}: ${why}; take ${other.deviceId} out of operation first, or ${device.deviceId} out ` +
    "of its agent's configuration"
  );
}

/** 0: it has no claim to its bytes. One that its agent reports no more has been taken away, unless a disk is on it. */
function claimOf({ diskId, attachState, missing }: Device): number {
  if (diskId !== "") return 3;
  if (missing) return 0;
  if (attachState === "ATTACHED") return 2;
  return attachState === "ATTACHING" || attachState === "CLOSING" ? 1 : 0;
}

/** Negative when `a` has the better claim, so that it has the place of every device that gives way to `b`. */
export function compareClaims(a: Device, b: Device): number {
  return claimOf(b) - claimOf(a) || a.generation - b.generation;
}

function hasThePlace(other: Device, device: Device): boolean {
  const [theirs, ours] = [claimOf(other), claimOf(device)];
  return theirs > ours || (theirs > 0 && theirs === ours && other.generation < device.generation);
}

export function overlap(a: Device, b: Device): boolean {
  // Nothing is known of the length of a device of size 0, which its agent could not look at.
  const end = ({ offsetBytes, sizeBytes }: Device) => offsetBytes + (sizeBytes || Number.POSITIVE_INFINITY);
  return a.offsetBytes < end(b) && b.offsetBytes < end(a);
}

/** Whether no two drives are made with this serial number. */
export function tellsDrivesApart(serialNumber: string, shared: SharedSerialNumbers): boolean {
  return isDistinctive(serialNumber) && !shared.has(serialNumber);
}
