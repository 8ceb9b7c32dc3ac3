import { fileDifference, identifiedBy } from "@diskmesh/domain";
import { ownerOf, unlabelled } from "../identity/labels.js";
import { holdsAnyDisk } from "../store/runs.js";
import {
  type Device,
  type Host,
  isAway,
  isHeld,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { defaultSliceBytes, sliceCount } from "../store/slices.js";
import { disksText } from "./action-result.js";
import { strangeLabelText } from "./replaced.js";

/**
 * Returns why the device is not added: the drive carries the label of another fleet, or of a device of this one. Such a
 * device may be in use, and an added drive is erased. Returns undefined when it may be added.
 */
export function whyForeign(tables: RegistryTables, device: Device, eraseForeign: boolean): string | undefined {
  const { deviceId, hostId, foundLabel, attachState } = device;
  if (foundLabel === undefined) return undefined;
  const owner = ownerOf(tables, foundLabel);
  const isOwn = owner?.deviceId === deviceId;
  if (owner !== undefined && !isOwn && holdsAnyDisk(owner) && whyNotGone(tables, owner) === undefined)
    return `device ${deviceId} of host ${hostId} carries the label of device ${owner.deviceId}, which is gone from host ${owner.hostId} and holds ${disksText(owner)}: AdoptDevice makes it that device, with what is on it (diskmesh adopt-device ${hostId} ${deviceId}); to give up what is on it, purge device ${owner.deviceId} first`;
  const whyPerhapsIt =
    owner === undefined || isOwn || !holdsAnyDisk(owner) ? undefined : whyNotCopy(tables, owner, device);
  if (owner !== undefined && whyPerhapsIt !== undefined)
    return `device ${deviceId} of host ${hostId} carries the label of device ${owner.deviceId}, which holds ${disksText(owner)}, and may be its drive: ${whyPerhapsIt}`;
  // Nothing is lost: the registry knows the label, and has nothing on its device.
  const isUnused = owner !== undefined && (isOwn ? attachState !== "UNKNOWN" : !holdsAnyDisk(owner) && !isHeld(owner));
  if (eraseForeign || isUnused) return undefined;
  const erase = `to erase it, add it with erase_foreign (diskmesh add-device ${hostId} ${deviceId} --erase-foreign)`;
  if (owner === undefined || isOwn)
    return `DEVICE_OF_ANOTHER_FLEET: device ${deviceId} of host ${hostId} carries ${strangeLabelText(foundLabel)}: attach it where it belongs; ${erase}`;
  return `device ${deviceId} of host ${hostId} carries the label of device ${owner.deviceId}, which is in use on host ${owner.hostId}, so it is a copy, or may become one: ${erase}`;
}

/** Returns the device whose drive's foreign label is to be overwritten, and takes that label from its former device. */
export function overwritten(tx: RegistryTransaction, device: Device): Device {
  const former = device.foundLabel && ownerOf(tx, device.foundLabel);
  if (
    former !== undefined &&
    former.deviceId !== device.deviceId &&
    former.label?.labelId === device.foundLabel?.labelId
  ) {
    // A drive that is still in its place keeps its label there.
    if (whyNotGone(tx, former) === undefined) tx.devices.put(unlabelled(former));
  }
  return unlabelled(device);
}

/**
 * Returns why the device is not added yet: its drive was found, and the agent has not read its label, which may be that of
 * a device in use. Returns undefined once the agent has said what is there, and where it reads no label: in a drive that is
 * too small for one, and in a device in operation without slices.
 */
export function whyUnread(host: Host | undefined, device: Device): string | undefined {
  const { deviceId, hostId, attachState, labelState, health, sizeBytes, sliceBytes } = device;
  const isFound = identifiedBy(device) !== undefined && health !== "ERROR";
  const isLarge = sliceCount({ sizeBytes, sliceBytes: sliceBytes ?? defaultSliceBytes(sizeBytes) }) > 0;
  const isRead = isLarge && (sliceBytes !== undefined || attachState === "UNKNOWN");
  if (!host?.slices || labelState !== undefined || !isFound || !isRead) return undefined;
  return `device ${deviceId} of host ${hostId} is not added, because its label is not read yet: add it again in a moment`;
}

/**
 * Returns why the drive in another place, which carries the device's label, may be the device's own; undefined when it is
 * a copy: the device's agent holds another drive. Two hosts may reach one drive, and a drive may be carried to another
 * host before the silence of the former one is noticed.
 */
function whyNotCopy(tables: RegistryTables, device: Device, place: Device): string | undefined {
  const { deviceId, hostId } = device;
  if (!isKnownInPlace(tables, device))
    return `the agent of host ${hostId} has not reported whether the drive is still there: once it has, or the host is declared DEAD (SetHostState), call AdoptDevice or AddDevice`;
  if (isOtherHardware(device, place)) return undefined;
  return `its serial number does not distinguish it from the drive of device ${deviceId} on host ${hostId}: if it is a copy, overwrite its first MiB with zeros, and add it again`;
}

/** Returns whether the device's agent, which is heard, holds the device's drive in its place. */
export function isKnownInPlace(tables: RegistryTables, device: Device): boolean {
  const host = tables.hosts.get(device.hostId);
  const isHeard = host !== undefined && !isAway(host) && host.mustRegister === undefined;
  return isHeard && device.attachState === "ATTACHED" && whyNotGone(tables, device) !== undefined;
}

/** Returns whether the hardware in two places is known to be different. */
export function isOtherHardware(device: Device, place: Device): boolean {
  return fileDifference(device, place) !== undefined;
}

/**
 * Returns why the device may still be in its place; undefined when its agent says that it is not, or an operator says
 * that its host is DEAD.
 */
export function whyNotGone({ hosts }: RegistryTables, device: Device): string | undefined {
  const { deviceId, hostId, missing, replacement, nothingThere } = device;
  const host: Host | undefined = hosts.get(hostId);
  if (host === undefined || host.state === "DEAD") return undefined;
  if (missing || nothingThere || replacement !== undefined) return undefined;
  return `the agent of host ${hostId} still reports device ${deviceId} in its place: pull the drive there, or, if host ${hostId} is gone for good, declare it DEAD (SetHostState)`;
}
