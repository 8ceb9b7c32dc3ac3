import { isDistinctive } from "@diskmesh/domain";
import type { Device, RegistryTables } from "../store/schema.js";

/** Serial numbers that several drives bear, as an operator said; they identify nothing. */
export type SharedSerialNumbers = ReadonlySet<string>;

export const NO_SHARED_SERIAL_NUMBERS: SharedSerialNumbers = new Set();

/** A device that lies on the same bytes as another one, and the evidence for it. */
export interface Sharer {
  readonly other: Device;
  readonly why: string;
}

/** Finds the devices on the same bytes as the given one, whether or not in operation. */
export type FindSharers = (device: Device) => Iterable<Sharer>;

/**
 * Returns the device in operation that lies on the same bytes as this one and has precedence, with the evidence;
 * undefined when there is none. Of two devices in operation, precedence goes to the one with a disk, then to the
 * ATTACHED one, then to the one with the earlier order, so the order of registrations does not matter.
 *
 * A file identity comes from the kernel of one boot of one machine, so agents of two hosts that report the same
 * identity run on that machine. The file's lock separates two machines that see one file over a network, and the serial
 * number separates two that see one drive.
 */
export function whoHasTheBytes(findSharers: FindSharers, device: Device): Sharer | undefined {
  for (const found of findSharers(device)) if (hasThePlace(found.other, device)) return found;
  return undefined;
}

/** Checks each device with the same file or serial number. Suits one device; `SortedSharers` suits many. */
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

/** Returns why a device is refused, for people; undefined when it is not. */
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

/**
 * Returns 0 for no claim to the bytes. A device that its agent no longer reports has no claim unless a disk is on it.
 */
function claimOf({ diskId, attachState, missing }: Device): number {
  if (diskId !== "") return 3;
  if (missing) return 0;
  if (attachState === "ATTACHED") return 2;
  return attachState === "ATTACHING" || attachState === "CLOSING" ? 1 : 0;
}

/**
 * Returns a negative number when `a` has the better claim, and so takes precedence over every device that yields to
 * `b`.
 */
export function compareClaims(a: Device, b: Device): number {
  return claimOf(b) - claimOf(a) || a.generation - b.generation;
}

function hasThePlace(other: Device, device: Device): boolean {
  const [theirs, ours] = [claimOf(other), claimOf(device)];
  return theirs > ours || (theirs > 0 && theirs === ours && other.generation < device.generation);
}

export function overlap(a: Device, b: Device): boolean {
  // A device of size 0 has an unknown length, because its agent could not read it.
  const end = ({ offsetBytes, sizeBytes }: Device) => offsetBytes + (sizeBytes || Number.POSITIVE_INFINITY);
  return a.offsetBytes < end(b) && b.offsetBytes < end(a);
}

/** Returns whether the serial number identifies one drive. */
export function tellsDrivesApart(serialNumber: string, shared: SharedSerialNumbers): boolean {
  return isDistinctive(serialNumber) && !shared.has(serialNumber);
}
