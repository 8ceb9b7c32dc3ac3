import { isDistinctive } from "@diskmesh/domain";
import { holdsAnyDisk } from "../store/runs.js";
import type { Device, RegistryTables } from "../store/schema.js";
import { disksText } from "./action-result.js";

/** Serial numbers that several drives have, according to the config; they identify nothing. */
export type SharedSerialNumbers = ReadonlySet<string>;

export const NO_SHARED_SERIAL_NUMBERS: SharedSerialNumbers = new Set();

/** A device that lies on the same bytes as another one, and the evidence for it. */
export interface Sharer {
  readonly other: Device;
  readonly why: string;
}

/** Returns the devices on the same bytes as the given one, in operation or not. */
export type FindSharers = (device: Device) => Iterable<Sharer>;

/**
 * Returns the device in operation that lies on the same bytes as this one and has precedence, with the evidence;
 * undefined when there is none. Precedence goes to the device with a disk, then to the ATTACHED device, then to the
 * device with the lower generation, so the order of registrations does not matter.
 *
 * A file identity comes from the kernel of one boot of one machine, so agents of two hosts that report the same
 * identity run on that machine. The lock on the file separates two machines that see one file over a network, and the
 * serial number separates two machines that see one drive.
 */
export function whoHasTheBytes(findSharers: FindSharers, device: Device): Sharer | undefined {
  for (const found of findSharers(device)) if (hasThePlace(found.other, device)) return found;
  return undefined;
}

/**
 * Returns a finder that compares all devices with the same file or serial number, for a single device. `SortedSharers`
 * is faster for many.
 */
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

/** Returns why the device is refused because of its bytes; undefined when it is accepted. */
export function whyRefused(findSharers: FindSharers, device: Device): string | undefined {
  const found = whoHasTheBytes(findSharers, device);
  if (found === undefined) return undefined;
  const { other, why } = found;
  const place = holdsAnyDisk(other)
    ? `holds ${disksText(other)} (${other.attachState})`
    : `is in operation (${other.attachState})`;
  return (
    `device ${device.deviceId} of host ${device.hostId} lies on the same bytes as device ${other.deviceId} of host ` +
    `${other.hostId}, which ${place}: ${why}; take device ${other.deviceId} out of operation first, or remove ` +
    `device ${device.deviceId} from its agent's configuration`
  );
}

/**
 * Returns the rank of the device's claim to its bytes; 0 for none. A device that its agent no longer reports has no
 * claim, unless a disk is on it.
 */
function claimOf(device: Device): number {
  const { attachState, missing } = device;
  if (holdsAnyDisk(device)) return 3;
  if (missing) return 0;
  if (attachState === "ATTACHED") return 2;
  return attachState === "ATTACHING" || attachState === "CLOSING" ? 1 : 0;
}

/**
 * Compares claims for sorting: the better claim first. A device that yields to `b` also yields to every device before
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
  // Size 0 means an unknown length, because the agent could not read the file.
  const end = ({ offsetBytes, sizeBytes }: Device) => offsetBytes + (sizeBytes || Number.POSITIVE_INFINITY);
  return a.offsetBytes < end(b) && b.offsetBytes < end(a);
}

/** Returns whether the serial number belongs to one drive only. */
export function tellsDrivesApart(serialNumber: string, shared: SharedSerialNumbers): boolean {
  return isDistinctive(serialNumber) && !shared.has(serialNumber);
}
