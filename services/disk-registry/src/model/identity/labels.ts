import type { DeviceId } from "@diskmesh/domain";
import type { DeviceIdentity } from "../store/device-identity.js";
import { type FoundLabel, isLabelRead, type LabelState } from "../store/device-label.js";
import { holdsAnyDisk } from "../store/runs.js";
import type { Device, Health, RegistryTables } from "../store/schema.js";
import type { Label } from "./decisions.js";

/** Label of a device as its agent reports it. */
export interface ReportedLabel {
  /** Absent: the agent reads no labels, or could not read the device. */
  readonly labelState?: LabelState | undefined;
  /** Set with VALID. */
  readonly readLabel?: { readonly fleetId: string; readonly deviceId: DeviceId; readonly labelId: string } | undefined;
}

/** Labels of one registration, and this fleet's own id. */
export interface LabelsOfHost {
  readonly fleetId: string;
  /** Places of the host by the label that was found there. */
  readonly placesOf: ReadonlyMap<string, readonly DeviceId[]>;
}

export function labelsOfHost(
  fleetId: string,
  devices: readonly (ReportedLabel & { readonly deviceId: DeviceId })[],
): LabelsOfHost {
  const placesOf = new Map<string, DeviceId[]>();
  for (const { deviceId, readLabel: label } of devices) {
    if (label === undefined) continue;
    const places = placesOf.get(label.labelId);
    if (places === undefined) placesOf.set(label.labelId, [deviceId]);
    else places.push(deviceId);
  }
  return { fleetId, placesOf };
}

/**
 * Returns the report without a label where that may be text of a disk's user: a disk of 0.1.0 has all bytes of its
 * device until they are erased, and an agent that has lost its cache cannot tell.
 */
export function withoutUsersText<T extends ReportedLabel>(device: Device | undefined, reported: T): T {
  const isUsers = device?.runs.some(
    ({ count, diskId, lastSessionNumber }) => count === undefined && (diskId !== "" || lastSessionNumber !== undefined),
  );
  if (!isUsers || reported.labelState === undefined) return reported;
  return { ...reported, labelState: "USERS", readLabel: undefined };
}

/** Compares the reported label with the recorded one, which `isOverwritten` says is known to be gone. */
export function labelIn(
  tables: RegistryTables,
  device: Device,
  reported: ReportedLabel,
  ofHost: LabelsOfHost,
  isOverwritten = false,
): Label {
  const { labelState, readLabel: label } = reported;
  if (!isLabelRead(labelState)) return "UNREAD";
  if (labelState !== "VALID" || label === undefined) {
    if (isOverwritten && holdsAnyDisk(device)) return "LOST";
    return labelState === "DAMAGED" ? "DAMAGED" : "NONE";
  }
  if (label.labelId === device.label?.labelId)
    return isElsewhere(tables, device, label.labelId, ofHost) ? "OWN_TWICE" : "OWN";
  // The drive carries this label until the device's own is written over it.
  if (label.labelId === device.formerLabelId) return "NONE";
  const { fleetId, ...own } = label;
  const owner = fleetId === ofHost.fleetId ? ownerOf(tables, own) : undefined;
  if (owner === undefined) return "OF_OTHER_FLEET";
  if (owner.deviceId !== device.deviceId) return "OF_OTHER";
  return device.label === undefined ? "UNRECORDED" : "FORMER";
}

/**
 * Returns the device whose recorded label it is, or else the device that a label of this registry names; undefined for
 * none. An adopted device keeps the label that names its former place.
 */
export function ownerOf(tables: RegistryTables, { labelId, deviceId, fleetId }: FoundLabel): Device | undefined {
  if (fleetId !== undefined) return undefined;
  const [recorded] = tables.devices.by("byLabel", labelId);
  return recorded ?? tables.devices.get(deviceId);
}

/** Returns the devices in whose places drives with the device's label were found, itself not included. */
export function otherPlacesOf(tables: RegistryTables, { deviceId, label }: Device): readonly Device[] {
  if (label === undefined) return [];
  const found = [...tables.devices.by("byFoundLabel", label.labelId)];
  return found.filter((other) => other.deviceId !== deviceId && !other.missing);
}

function isElsewhere(tables: RegistryTables, device: Device, labelId: string, { placesOf }: LabelsOfHost): boolean {
  // Which of the two is left does not tell which one is the copy.
  if (device.replacement?.refusedFor === "LABEL_TWICE") return true;
  if (placesOf.get(labelId)?.some((deviceId) => deviceId !== device.deviceId)) return true;
  return otherPlacesOf(tables, device).some(({ hostId }) => hostId !== device.hostId);
}

/** Report of what is in the place of a device. */
interface Findings extends ReportedLabel, Pick<DeviceIdentity, "serialNumber" | "fileIdentity"> {
  readonly attached: boolean;
  readonly health: Health;
}

/** Returns the device with what its agent found in its place: a label, or nothing at all. */
export function withFindings(device: Device, found: Findings, fleetId: string): Device {
  const { labelState } = found;
  const foundLabel = othersLabel(device, found, fleetId);
  // An agent may still hold the file of a drive that was taken out.
  const isHeld = found.attached && found.health !== "ERROR";
  const nothingThere = !isHeld && !found.fileIdentity && found.serialNumber === "";
  const isSameLabel = JSON.stringify(foundLabel) === JSON.stringify(device.foundLabel);
  if (isSameLabel && device.labelState === labelState && (device.nothingThere ?? false) === nothingThere) return device;
  const { labelState: _, foundLabel: __, nothingThere: ___, ...rest } = device;
  const there = nothingThere && ({ nothingThere } as const);
  return { ...rest, ...(labelState && { labelState }), ...(foundLabel && { foundLabel }), ...there };
}

/** Returns the reported label, unless it is the device's own, or is to be overwritten. */
function othersLabel(device: Device, { readLabel: label }: ReportedLabel, fleetId: string): FoundLabel | undefined {
  if (label === undefined || label.labelId === device.label?.labelId || label.labelId === device.formerLabelId)
    return undefined;
  const { labelId, deviceId } = label;
  return label.fleetId === fleetId ? { labelId, deviceId } : { labelId, deviceId, fleetId: label.fleetId };
}

/** Returns whether no whole label was found where the device's recorded one is. */
export function lacksLabel({ label }: Device, state: LabelState | undefined): boolean {
  return label !== undefined && (state === "NONE" || state === "DAMAGED");
}

/**
 * Returns whether the label of a device was overwritten. The agent tells that as an error, too: a state alone may
 * be older than the label.
 */
export function hasLostLabel(device: Device): boolean {
  return device.health === "ERROR" && lacksLabel(device, device.labelState);
}

/** Returns the device without a label of its own; the drive may carry one that is to be overwritten. */
export function unlabelled(device: Device): Device {
  const { label, foundLabel, formerLabelId: _, ...rest } = device;
  const carried = device.labelState === "VALID" ? (foundLabel ?? label)?.labelId : undefined;
  return carried === undefined ? rest : { ...rest, formerLabelId: carried };
}
