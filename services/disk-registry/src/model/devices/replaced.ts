import { identityChange } from "../identity/hardware.js";
import { hasLostLabel } from "../identity/labels.js";
import type { RefusedFor, Replacement } from "../store/device-label.js";
import { holdsAnyDisk } from "../store/runs.js";
import type { Device } from "../store/schema.js";
import { disksOnItText, disksText } from "./action-result.js";

export type Replaced = Device & { readonly replacement: Replacement };

/** Returns why the hardware found in the device's place is not used. Documents of 0.1.0 do not say it. */
export function refusedFor(device: Replaced): RefusedFor {
  const { replacement } = device;
  return replacement.refusedFor ?? (identityChange(device, replacement) === "" ? "UNIDENTIFIED" : "OTHER_HARDWARE");
}

/** Returns why the hardware found in the device's place is not accepted, and the remedy. */
export function whyReplaced(device: Replaced): string {
  const { deviceId, hostId, replacement, foundLabel } = device;
  const isHeld = holdsAnyDisk(device);
  const at = JSON.stringify(replacement.path);
  const change = identityChange(device, replacement);
  const inBrackets = change === "" ? "" : ` (${change})`;
  const accepting = "AddDevice accepts it as a new, dirty device";
  const foreign = isHeld ? "" : ", or have AddDevice erase this one (erase_foreign)";
  const adopt = `with its data (AdoptDevice; diskmesh adopt-device ${hostId} ${deviceId})`;
  switch (refusedFor(device)) {
    case "UNIDENTIFIED":
      return `the hardware at ${at} cannot be identified as the same: check it and call ConfirmDevice, put the former hardware back, or ${isHeld ? `delete what is on it: ${disksText(device)}` : accepting}`;
    case "LABEL_LOST":
      return isHeld
        ? `the label of device ${deviceId} is gone from ${at}, and ${disksOnItText(device)}: check on host ${hostId} whether the data is whole; if it is, call ConfirmDevice, else delete the disk`
        : `the label of device ${deviceId} is gone from ${at}: ${accepting}`;
    case "OTHER_HARDWARE": {
      const cure = isHeld ? `${disksOnItText(device)}: put the former hardware back, or delete the disk` : accepting;
      return `other hardware is in its place${inBrackets}: ${cure}`;
    }
    case "LABEL_ON_OTHER_HARDWARE":
      if (isShorter(device))
        return `the drive at ${at} carries the label of device ${deviceId}, but has lost bytes of it${inBrackets}: put the former hardware back, with its former size`;
      return `the drive at ${at} carries the label of device ${deviceId}, and is not known to be its hardware${inBrackets}, so it may be a copy: put the former hardware back, or adopt the drive ${adopt}`;
    case "LABEL_TWICE":
      return `the drive at ${at} and a drive in another place both have the label of device ${deviceId}; neither is known to be its hardware: adopt the drive that has the latest data, ${adopt}`;
    case "LABEL_OF_OTHER_DEVICE":
      return `the drive at ${at} carries the label of device ${foundLabel?.deviceId ?? ""}: put the drive of device ${deviceId} back, or correct the paths in the agent's config`;
    case "LABEL_OF_OTHER_FLEET":
      return `the drive at ${at} carries ${strangeLabelText(foundLabel)}: put the drive of device ${deviceId} back${foreign}`;
  }
}

/** Returns whether the hardware found in the device's place lacks bytes of the device, so that AdoptDevice refuses it. */
export function isShorter({ sizeBytes, replacement }: Replaced): boolean {
  return replacement.sizeBytes > 0 && replacement.sizeBytes < sizeBytes;
}

/** Formats a label that names no device of this registry. */
export function strangeLabelText(found: Device["foundLabel"]): string {
  if (found === undefined) return "a label that this registry does not know";
  const of = found.fleetId === undefined ? ", which this registry does not know" : ` of fleet ${found.fleetId}`;
  return `the label of device ${found.deviceId}${of}`;
}

/**
 * Returns whether ConfirmDevice decides: nothing differs and nothing proves the hardware the same, or the device's label was
 * overwritten.
 */
export function awaitsConfirmation(device: Device): boolean {
  const { replacement } = device;
  const isUnidentified = replacement !== undefined && refusedFor({ ...device, replacement }) === "UNIDENTIFIED";
  return isUnidentified || isLabelLost(device);
}

/** Returns whether the label of the device was overwritten, while it was in use or before it was opened. */
export function isLabelLost(device: Device): boolean {
  const { replacement } = device;
  return replacement === undefined ? hasLostLabel(device) : refusedFor({ ...device, replacement }) === "LABEL_LOST";
}
