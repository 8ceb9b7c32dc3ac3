import { type DeviceId, type HostId, identifiedBy, isKnownSame } from "@diskmesh/domain";
import { type Decision, decide, type Hardware, isRefused, type Label } from "../identity/decisions.js";
import { identityChange, identityOf, isShownSame } from "../identity/hardware.js";
import {
  type LabelsOfHost,
  labelIn,
  lacksLabel,
  type ReportedLabel,
  unlabelled,
  withFindings,
} from "../identity/labels.js";
import type { DeviceIdentity } from "../store/device-identity.js";
import type { RefusedFor, Replacement } from "../store/device-label.js";
import { allDirty, eraseSessionOf, holdsAnyDisk, withEraseSession } from "../store/runs.js";
import type { Device, Health, RegistryTransaction } from "../store/schema.js";
import { withDirtyBytes } from "../store/slices.js";
import { advance } from "./attach-states.js";
import { nextDeviceGeneration } from "./counters.js";
import {
  type HardwareError,
  reportedHealth,
  withHardwareError,
  withoutKeptHealth,
  withReportedHealth,
} from "./device-health.js";
import { forgetDevice } from "./foreign-devices.js";
import { whyReplaced } from "./replaced.js";
import { type FindSharers, whoHasTheBytes } from "./same-bytes.js";
import type { RememberedSession } from "./unknown-disks.js";

/** A device as its agent reports it. */
export interface ReportedDevice extends DeviceIdentity, ReportedLabel, RememberedSession {
  readonly deviceId: DeviceId;
  readonly pool: string;
  readonly health: Health;
  readonly healthMessage: string;
  /** The agent holds the device's file open now. */
  readonly attached: boolean;
  /** Hardware error since the last report. */
  readonly hardwareError?: HardwareError | undefined;
}

/** Returns a new device: UNKNOWN, to be detached, and dirty because its contents are unknown. */
export function newDevice(
  tx: RegistryTransaction,
  hostId: HostId,
  reported: ReportedDevice,
  { fleetId }: LabelsOfHost,
  nowMs: number,
): Device {
  const device = allDirty<Device>({
    deviceId: reported.deviceId,
    hostId,
    ...identityOf(reported),
    pool: reported.pool,
    health: reported.health,
    healthMessage: reported.healthMessage,
    attachState: "UNKNOWN",
    generation: nextDeviceGeneration(tx),
    attempts: 0,
    lastError: "",
    runs: [],
    removalRequested: false,
    detachConfirmed: false,
    stateChangedAtMs: nowMs,
  });
  const noted = withNewError(withFindings(device, reported, fleetId), reported, nowMs);
  tx.devices.put(noted);
  return noted;
}

function withNewError(device: Device, { hardwareError }: ReportedDevice, nowMs: number): Device {
  // Does not record the error while other hardware is in the device's place, because it is an error of that hardware.
  if (hardwareError === undefined || device.replacement !== undefined) return device;
  return withHardwareError(device, hardwareError, nowMs);
}

/** Refuses a device id that belongs to another host: this host must close its device of that id. */
export function foreignDevice(tx: RegistryTransaction, known: Device): { generation: number; reason: string } {
  const reason = `the device id belongs to host ${known.hostId}: give the device another id, or purge the device on that host first`;
  return { generation: nextDeviceGeneration(tx), reason };
}

/**
 * Returns a known device with the new report. `newStart` means that the agent closed all its files since it last
 * registered.
 */
export function mergeReported(
  tx: RegistryTransaction,
  device: Device,
  reported: ReportedDevice,
  newStart: boolean,
  { findSharers, labels }: { readonly findSharers: FindSharers; readonly labels: LabelsOfHost },
  nowMs: number,
): Device {
  const heldSince = device.attachState === "ATTACHED" && reported.attached && !newStart;
  // The report of a device that is held, and well, may be older than a label that was written meanwhile.
  const isOverwritten = lacksLabel(device, reported.labelState) && !(heldSince && reported.health !== "ERROR");
  const label = labelIn(tx, device, reported, labels, isOverwritten);
  const told = withFindings(device, reported, labels.fleetId);
  const isSame = isAsKnown(device, reported) && isLabelAsKnown(device, label, heldSince);
  let merged = withNewError(
    isSame ? told : mergeIdentity(told, reported, { label, heldSince, labels }, nowMs),
    reported,
    nowMs,
  );
  if (isOverwritten && merged.label === undefined) merged = relabelledAnew(tx, merged, nowMs);
  const isSameAsLeft = heldSince || ((label === "OWN" || isKnownSame(device, reported)) && !device.missing);
  if (!isSameAsLeft && merged.replacement === undefined) merged = distrusted(merged);
  const held = reported.attached && merged.replacement === undefined;
  if (merged.attachState === "ATTACHED" && !held) merged = advance(tx, merged, "registered_without", nowMs);
  const isInOperation = merged.attachState === "ATTACHED" || merged.attachState === "ATTACHING";
  // A device that was missing had no claim to its bytes, so another device that claimed them since keeps them.
  const claimant: Device = device.missing ? { ...merged, attachState: "UNKNOWN" } : merged;
  if (isInOperation && !holdsAnyDisk(merged) && whoHasTheBytes(findSharers, claimant))
    merged = advance(tx, merged, "refused", nowMs);
  const mustLetGo = merged.attachState !== "ATTACHED" && merged.attachState !== "ATTACHING";
  if (mustLetGo && reported.attached && merged.detachConfirmed) merged = { ...merged, detachConfirmed: false };
  // Unchanged devices are not written, because 10,000 agents register at once after a restart.
  if (merged === device || sameFields(merged, device)) return device;
  tx.devices.put(merged);
  return merged;
}

/** Returns the device without its overwritten label, and with an order that has its agent go on without one. */
function relabelledAnew(tx: RegistryTransaction, device: Device, nowMs: number): Device {
  const isWanted = device.attachState === "ATTACHING" || device.attachState === "ATTACHED";
  return distrusted(isWanted ? advance(tx, device, "replacement_accepted", nowMs) : device);
}

/**
 * Returns the device with unknown contents where no disk is: while no agent held it, it may have been swapped for
 * another drive of its size, or used elsewhere. A running erase restarts under another session, because a late answer
 * of the former agent may be about the former drive.
 */
export function distrusted(device: Device): Device {
  // Without a disk the bytes beside the slices are erased, too: they may be a former tenant's.
  const dirtied = holdsAnyDisk(device)
    ? withDirtyBytes(device, { offsetBytes: 0, sizeBytes: device.sizeBytes })
    : allDirty(device);
  return eraseSessionOf(dirtied) === 0 ? dirtied : withEraseSession(dirtied, 0);
}

/** Handles a device that its agent no longer reports: forgotten if it was never in operation, otherwise in error. */
export function mergeLost(tx: RegistryTransaction, device: Device, nowMs: number): void {
  if (device.attachState === "UNKNOWN") {
    forgetDevice(tx, device);
    return;
  }
  const healthMessage = `the agent of host ${device.hostId} does not report the device`;
  const lost: Device = {
    ...device,
    health: "ERROR",
    healthMessage,
    unwellSinceMs: device.unwellSinceMs ?? nowMs,
    missing: true,
  };
  const merged = lost.attachState === "ATTACHED" ? advance(tx, lost, "registered_without", nowMs) : lost;
  if (!sameFields(merged, device)) tx.devices.put(merged);
}

/** Handles a device whose report is malformed: it is in error until a well-formed report arrives. */
export function mergeRefused(tx: RegistryTransaction, device: Device, reason: string, nowMs: number): void {
  const healthMessage = `the agent of host ${device.hostId} registered the device with a malformed description: ${reason}`;
  const refused: Device = { ...withReportedHealth(device, { health: "ERROR", healthMessage }, nowMs), refused: true };
  const merged = refused.attachState === "ATTACHED" ? advance(tx, refused, "registered_without", nowMs) : refused;
  if (!sameFields(merged, device)) tx.devices.put(merged);
}

/**
 * Returns whether the report changes nothing, which holds for nearly all devices when many hosts register at once. The
 * check is cheaper than building the merged device and comparing.
 */
function isAsKnown(device: Device, reported: ReportedDevice): boolean {
  const said = reportedHealth(device);
  return (
    device.replacement === undefined &&
    device.grownToBytes === undefined &&
    !device.missing &&
    !device.refused &&
    device.path === reported.path &&
    device.offsetBytes === reported.offsetBytes &&
    device.sizeBytes === reported.sizeBytes &&
    device.blockSizeBytes === reported.blockSizeBytes &&
    (reported.serialNumber === "" || device.serialNumber === reported.serialNumber) &&
    (!reported.fileIdentity || device.fileIdentity === reported.fileIdentity) &&
    device.pool === reported.pool &&
    said.health === reported.health &&
    said.healthMessage === reported.healthMessage
  );
}

/** Returns whether the label found on the device's own hardware changes nothing. */
function isLabelAsKnown(device: Device, label: Label, heldSince: boolean): boolean {
  const decision = decide(label, "SAME", { isKnownByLabel: isKnownByLabel(device), heldSince });
  return decision === "ACCEPT" || (decision === "REWRITE" && device.label === undefined);
}

function isKnownByLabel(device: Device): boolean {
  return identifiedBy(device) === "NONE";
}

function hardwareIn(device: Device, reported: ReportedDevice, heldSince: boolean): Hardware {
  if (identityChange(device, reported) !== "") return "OTHER";
  if (heldSince || isShownSame(device, reported)) return "SAME";
  return isKnownByLabel(device) && identifiedBy(reported) === "NONE" ? "NAMELESS" : "UNPROVEN";
}

function mergeIdentity(
  before: Device,
  reported: ReportedDevice,
  { label, heldSince, labels }: { readonly label: Label; readonly heldSince: boolean; readonly labels: LabelsOfHost },
  nowMs: number,
): Device {
  const { pool, health, healthMessage } = reported;
  const inUse = before.attachState === "ATTACHING" || before.attachState === "ATTACHED" || holdsAnyDisk(before);
  const isGrown = before.sizeBytes !== 0 && reported.sizeBytes > before.sizeBytes;
  const hardware = hardwareIn(before, reported, heldSince);
  const decision = decide(label, hardware, { isKnownByLabel: isKnownByLabel(before), heldSince });
  const device = relabelled(before, reported, inUse ? decision : "ACCEPT");
  const { replacement: _, missing: __, grownToBytes: ___, refused: ____, ...known } = device;
  const isAlike = hardware === "SAME" || hardware === "NAMELESS";
  if (inUse ? !isRefused(decision) : isAlike && !isGrown) {
    const serialNumber = reported.serialNumber === "" ? device.serialNumber : reported.serialNumber;
    const facts = device.sizeBytes === 0 ? identityOf(reported) : { path: reported.path };
    const fileIdentity = reported.fileIdentity || device.fileIdentity;
    const grown = isGrown && { grownToBytes: reported.sizeBytes };
    const same = { ...known, ...facts, ...(fileIdentity && { fileIdentity }), serialNumber, pool, ...grown };
    return withReportedHealth(same, { health, healthMessage }, nowMs);
  }
  if (!inUse) {
    const { label: ____, formerLabelId: _____, ...other } = known;
    const found = { ...other, ...identityOf(reported), pool, health, healthMessage };
    return withoutKeptHealth(allDirty(withFindings(found, reported, labels.fleetId)));
  }
  const replacement: Replacement = { ...identityOf(reported), refusedFor: decision as RefusedFor };
  // The agent says what it found in the label's place.
  const isTold = decision === "LABEL_LOST" && health === "ERROR";
  const why = isTold ? healthMessage : whyReplaced({ ...device, replacement });
  return { ...known, health: "ERROR", healthMessage: why, replacement, unwellSinceMs: before.unwellSinceMs ?? nowMs };
}

/** Returns the device with the label recorded that was found on its own hardware, or with none, so that it gets one. */
function relabelled(device: Device, { readLabel: label }: ReportedDevice, decision: Decision): Device {
  if (decision === "RECORD" && label !== undefined) {
    const { foundLabel: _, formerLabelId: __, ...rest } = device;
    return { ...rest, label: { labelId: label.labelId } };
  }
  return decision === "REWRITE" && device.label !== undefined ? unlabelled(device) : device;
}

function sameFields(a: Device, b: Device): boolean {
  return sameIn(a, b) && sameIn(b, a) && sameReplacement(a, b);
}

function sameIn(a: Device, b: Device): boolean {
  for (const name in a) {
    if (name !== "replacement" && a[name as keyof Device] !== b[name as keyof Device]) return false;
  }
  return true;
}

function sameReplacement(a: Device, b: Device): boolean {
  return a.replacement === b.replacement || JSON.stringify(a.replacement) === JSON.stringify(b.replacement);
}
