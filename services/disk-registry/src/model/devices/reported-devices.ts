import { type DeviceId, fileDifference, type HostId, identifiedBy, isKnownSame } from "@diskmesh/domain";
import type { Device, DeviceIdentity, Health, RegistryTransaction } from "../store/schema.js";
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
import { type FindSharers, whoHasTheBytes } from "./same-bytes.js";
import type { RememberedSession } from "./unknown-disks.js";

/** A device as its agent found it. */
export interface ReportedDevice extends DeviceIdentity, RememberedSession {
  readonly deviceId: DeviceId;
  readonly pool: string;
  readonly health: Health;
  readonly healthMessage: string;
  /** The agent holds its file open now. */
  readonly attached: boolean;
  /** What the hardware failed with since the registry was told last. */
  readonly hardwareError?: HardwareError | undefined;
}

/** A device that nobody knew: UNKNOWN, and to be detached. What it holds is anybody's guess, so it is dirty. */
export function newDevice(tx: RegistryTransaction, hostId: HostId, reported: ReportedDevice, nowMs: number): Device {
  const device: Device = {
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
    dirty: true,
    removalRequested: false,
    detachConfirmed: false,
    diskId: "",
    eraseSessionNumber: 0,
    stateChangedAtMs: nowMs,
  };
  const noted = withNewError(device, reported, nowMs);
  tx.devices.put(noted);
  return noted;
}

function withNewError(device: Device, { hardwareError }: ReportedDevice, nowMs: number): Device {
  // Hardware that was swapped is not the device, whose errors these would be.
  if (hardwareError === undefined || device.replacement !== undefined) return device;
  return withHardwareError(device, hardwareError, nowMs);
}

/** The id belongs to another host: this one is to let go of whatever it has under that name. */
export function foreignDevice(tx: RegistryTransaction, known: Device): { generation: number; reason: string } {
  const reason = `the device id belongs to host ${known.hostId}: give the device another id, or purge it there first`;
  return { generation: nextDeviceGeneration(tx), reason };
}

/** A known device as it is now reported; `newStart`: its agent let go of all its files since it last registered. */
export function mergeReported(
  tx: RegistryTransaction,
  device: Device,
  reported: ReportedDevice,
  newStart: boolean,
  findSharers: FindSharers,
  nowMs: number,
): Device {
  const heldSince = device.attachState === "ATTACHED" && reported.attached && !newStart;
  let merged = withNewError(
    isAsKnown(device, reported) ? device : mergeIdentity(device, reported, heldSince, nowMs),
    reported,
    nowMs,
  );
  const isSameAsLeft = heldSince || (isKnownSame(device, reported) && !device.missing);
  if (!isSameAsLeft && merged.replacement === undefined) merged = distrusted(merged);
  const held = reported.attached && merged.replacement === undefined;
  if (merged.attachState === "ATTACHED" && !held) merged = advance(tx, merged, "registered_without", nowMs);
  const isInOperation = merged.attachState === "ATTACHED" || merged.attachState === "ATTACHING";
  // While it was missing it had no claim: whoever came to its bytes meanwhile keeps them.
  const claimant: Device = device.missing ? { ...merged, attachState: "UNKNOWN" } : merged;
  if (isInOperation && merged.diskId === "" && whoHasTheBytes(findSharers, claimant))
    merged = advance(tx, merged, "refused", nowMs);
  const mustLetGo = merged.attachState !== "ATTACHED" && merged.attachState !== "ATTACHING";
  if (mustLetGo && reported.attached && merged.detachConfirmed) merged = { ...merged, detachConfirmed: false };
  // Unchanged devices are not written: 10,000 agents register at once after a restart.
  if (merged === device || sameFields(merged, device)) return device;
  tx.devices.put(merged);
  return merged;
}

/**
 * While nobody held it, another drive of its size may have come into its place, or it has been elsewhere: its bytes are
 * anybody's. An erase that was under way begins anew, under another session: the agent that is gone may have finished it
 * on the drive that was there, and its answer may be on its way still.
 */
export function distrusted(device: Device): Device {
  if (device.diskId !== "" || (device.dirty && device.eraseSessionNumber === 0)) return device;
  return { ...device, dirty: true, eraseSessionNumber: 0 };
}

/** A device that its agent reports no more: forgotten if nobody ever took it into operation, else in error. */
export function mergeLost(tx: RegistryTransaction, device: Device, nowMs: number): void {
  if (device.attachState === "UNKNOWN") {
    forgetDevice(tx, device);
    return;
  }
  const healthMessage = `the agent of host ${device.hostId} reports no such device`;
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

/** A device that its agent has, and describes in a form that cannot be taken in: in error until the agent describes it well. */
export function mergeRefused(tx: RegistryTransaction, device: Device, reason: string, nowMs: number): void {
  const healthMessage = `the agent of host ${device.hostId} registered the device with a malformed description: ${reason}`;
  const refused: Device = { ...withReportedHealth(device, { health: "ERROR", healthMessage }, nowMs), refused: true };
  const merged = refused.attachState === "ATTACHED" ? advance(tx, refused, "registered_without", nowMs) : refused;
  if (!sameFields(merged, device)) tx.devices.put(merged);
}

/** Nothing to take over. So it is with nearly all devices of a storm, and this spares building them anew to compare. */
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

function mergeIdentity(device: Device, reported: ReportedDevice, heldSince: boolean, nowMs: number): Device {
  const { replacement: _, missing: __, grownToBytes: ___, refused: ____, ...known } = device;
  const { pool, health, healthMessage } = reported;
  const change = identityChange(device, reported);
  const inUse = device.attachState === "ATTACHING" || device.attachState === "ATTACHED" || device.diskId !== "";
  const isGrown = device.sizeBytes !== 0 && reported.sizeBytes > device.sizeBytes;
  const isUnproven = inUse && change === "" && !heldSince && !isShownSame(device, reported);
  if (change === "" && !isUnproven && (inUse || !isGrown)) {
    const serialNumber = reported.serialNumber === "" ? device.serialNumber : reported.serialNumber;
    const facts = device.sizeBytes === 0 ? identityOf(reported) : { path: reported.path };
    const fileIdentity = reported.fileIdentity || device.fileIdentity;
    const grown = isGrown && { grownToBytes: reported.sizeBytes };
    const same = { ...known, ...facts, ...(fileIdentity && { fileIdentity }), serialNumber, pool, ...grown };
    return withReportedHealth(same, { health, healthMessage }, nowMs);
  }
  if (!inUse) {
    const other = {
      ...known,
      ...identityOf(reported),
      pool,
      health,
      healthMessage,
      dirty: true,
      eraseSessionNumber: 0,
    };
    return withoutKeptHealth(other);
  }
  const replacement = identityOf(reported);
  return { ...known, health: "ERROR", healthMessage: whyReplaced({ ...device, replacement }), replacement };
}

/** Why what was found in the device's place is not taken for the device, and what to do. */
export function whyReplaced(device: Device & { readonly replacement: DeviceIdentity }): string {
  const { diskId, replacement } = device;
  const change = identityChange(device, replacement);
  const accepting = "AddDevice accepts it as a new, dirty device";
  if (change === "")
    return `nothing shows that what is at ${JSON.stringify(replacement.path)} is the same hardware: see that it is and call ConfirmDevice, put the former back, or ${diskId === "" ? accepting : `delete disk ${diskId}, which is on it`}`;
  const cure = diskId === "" ? accepting : `disk ${diskId} is on it: put the former hardware back, or delete the disk`;
  return `other hardware is in its place (${change}): ${cure}`;
}

/** Returns whether the hardware found in the device's place may be the device: only an operator can tell. */
export function isUnproven(device: Device): boolean {
  return device.replacement !== undefined && identityChange(device, device.replacement) === "";
}

/** Where one of the two is not known at all, as of a file that could not be looked at, there is nothing to show. */
function isShownSame(known: DeviceIdentity, found: DeviceIdentity): boolean {
  if (identifiedBy(known) === undefined || identifiedBy(found) === undefined) return true;
  return known.sizeBytes === 0 || found.sizeBytes === 0 || isKnownSame(known, found);
}

export function identityOf(of: DeviceIdentity): DeviceIdentity {
  const { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, fileIdentity } = of;
  return { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, ...(fileIdentity && { fileIdentity }) };
}

/**
 * Returns what differs, for people; empty when it is the same device. A path may change with the order in which drives are found,
 * and what is shown to be the same file or drive may have grown. A device of size 0 is one that its agent cannot open: nothing is known of what is there.
 */
function identityChange(known: DeviceIdentity, found: DeviceIdentity): string {
  if (known.sizeBytes === 0 || found.sizeBytes === 0) return "";
  const changes: string[] = [];
  const isGrown = found.sizeBytes > known.sizeBytes && isKnownSame(known, found);
  for (const field of ["offsetBytes", "sizeBytes", "blockSizeBytes"] as const) {
    if (field === "sizeBytes" && isGrown) continue;
    if (known[field] !== found[field]) changes.push(`${field} was ${known[field]}, is ${found[field]}`);
  }
  const otherFile = fileDifference(known, found);
  if (otherFile !== undefined) changes.push(otherFile);
  return changes.join("; ");
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
