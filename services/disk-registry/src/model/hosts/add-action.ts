import {
  countText,
  type DeviceId,
  fileDifference,
  type HostId,
  InvalidStateError,
  identifiedBy,
  isKnownSame,
} from "@diskmesh/domain";
import { type ActionResult, actionResult, disksText, named, tryAgain } from "../devices/action-result.js";
import { advance } from "../devices/attach-states.js";
import { withoutKeptHealth, withReportedHealth } from "../devices/device-health.js";
import { type DeviceSelector, devicesOfHost, requireDevices, requireHost } from "../devices/device-selection.js";
import { divided, type SliceSizes, whyNotDivided } from "../devices/division.js";
import { withSessionsEnded } from "../devices/ended-sessions.js";
import { overwritten, whyForeign, whyUnread } from "../devices/foreign-labels.js";
import { whyReplaced } from "../devices/replaced.js";
import { distrusted } from "../devices/reported-devices.js";
import {
  type FindSharers,
  NO_SHARED_SERIAL_NUMBERS,
  type SharedSerialNumbers,
  whyRefused,
} from "../devices/same-bytes.js";
import { SortedSharers } from "../devices/sorted-sharers.js";
import { stay } from "../disks/removal-moves.js";
import { identityOf } from "../identity/hardware.js";
import { unlabelled } from "../identity/labels.js";
import type { DeviceIdentity } from "../store/device-identity.js";
import { allDirty, holdsAnyDisk, isDirty } from "../store/runs.js";
import { type Device, type Host, isAway, type RegistryTransaction } from "../store/schema.js";

/** Maximum reasons in an error, because the size of an error is limited. */
const MAX_REASONS = 4;
/** `retry_after` while an agent reads labels, which takes about a second. */
const READING_RETRY_AFTER_MS = 1_000;
const WELL = { health: "ONLINE", healthMessage: "" } as const;

/** Options of an addition, and its inputs from memory, config and clock. */
export interface AddCall {
  readonly nowMs: number;
  /** `retry_after` while a host is UNAVAILABLE. */
  readonly waitingRetryAfterMs: number;
  readonly shared?: SharedSerialNumbers | undefined;
  /**
   * True also adds drives that neither a serial number nor a label identifies. Such a drive waits for ConfirmDevice after
   * each boot of its machine.
   */
  readonly acceptUnidentified?: boolean | undefined;
  /** True also adds drives with labels of other fleets, of unknown devices, and of copies; they are erased. */
  readonly eraseForeign?: boolean | undefined;
  /** Bytes of a slice of the devices. Absent: the size that they have, that of their pool, or the default. */
  readonly sliceBytes?: number | undefined;
  readonly sliceSizes?: SliceSizes | undefined;
}

/** Takes a host and all its devices into operation. */
export function addHost(tx: RegistryTransaction, hostId: HostId, call: AddCall): ActionResult {
  const host = requireHost(tx, hostId);
  requireAlive(host);
  const { removalRequested: wished, lossNoted: _, ...rest } = host;
  if (wished) tx.hosts.put({ ...rest, removalRequested: false });
  const devices = devicesOfHost(tx, hostId);
  const added = addAll(tx, devices, call);
  stay(tx, devices);
  return naming(added.unerased, hostAdded(host, devices, { ...added, wished }, call));
}

function hostAdded(
  host: Host,
  devices: readonly Device[],
  { changed, taken, refused, unread, hindered, wished }: Added & { readonly wished: boolean },
  call: AddCall,
): ActionResult {
  const { hostId, foreignDevices = [] } = host;
  const name = `host ${hostId} with its ${countText(devices.length, "device")}`;
  const isPartly = wished || taken > 0;
  if (refused.length > 0) {
    const left = devices.length - refused.length - unread.length;
    const what = `host ${hostId} is in operation with ${left} of its ${countText(devices.length, "device")}; the others are refused`;
    const reasons = [...refused, ...unread];
    return partly(isPartly, `${what}: ${reasons.join("; ")}`, [...reasons, ...hindered]);
  }
  if (devices.length === 0 && foreignDevices.length > 0) {
    const ids = named(foreignDevices.map((device) => `${device.deviceId} (host ${device.hostId})`));
    const cure = "give the devices other ids, or purge the ids on those hosts first";
    const why = `host ${hostId} has no device, because all its device ids belong to other hosts (${ids}): ${cure}`;
    return partly(isPartly, `host ${hostId} is no longer to be removed; ${why}`, [why]);
  }
  if (isAway(host)) return whileAway(name, host, call);
  if (unread.length > 0) return untilRead(unread);
  const not = hindered.length === 0 ? "" : `; not in operation: ${hindered.join("; ")}`;
  if (hindered.length > 0 && hindered.length === devices.length)
    return partly(isPartly, `${name} is taken in${not}`, hindered);
  if (changed === 0 && !wished) return actionResult("S_ALREADY", `${name} is in operation${not}`);
  return actionResult("S_OK", `${name} is in operation; ${changed} of them were taken in${not}`);
}

/** Adds the ids of unerased replaced devices to any result, because no later answer mentions the former hardware. */
function naming(unerasedDeviceIds: readonly DeviceId[], result: ActionResult): ActionResult {
  if (unerasedDeviceIds.length === 0) return result;
  const note = `their former hardware was removed without an erase and still has its data: ${named(unerasedDeviceIds)}`;
  return { ...result, message: `${result.message}; ${note}`, unerasedDeviceIds };
}

/** Takes one device, or all devices on a path, into operation. */
export function addDevice(tx: RegistryTransaction, selector: DeviceSelector, call: AddCall): ActionResult {
  const devices = requireDevices(tx, selector);
  const names = named(devices.map((device) => device.deviceId));
  const host = tx.hosts.get(devices[0]?.hostId ?? "");
  if (host !== undefined) {
    requireAlive(host);
    requireStaying(host, names);
  }
  const added = addAll(tx, devices, call);
  stay(tx, devices);
  return naming(added.unerased, devicesAdded(host, names, added, call));
}

function devicesAdded(
  host: Host | undefined,
  names: string,
  { changed, taken, refused, unread, hindered }: Added,
  call: AddCall,
): ActionResult {
  if (refused.length > 0) {
    const reasons = [...refused, ...unread];
    const message = `taken in: ${taken} of ${names}; the others are refused: ${reasons.join("; ")}`;
    return partly(taken > 0, message, [...reasons, ...hindered]);
  }
  if (host !== undefined && isAway(host)) return whileAway(names, host, call);
  if (unread.length > 0) return untilRead(unread);
  if (hindered.length > 0) {
    const message = `taken in, and not in operation: ${hindered.join("; ")}`;
    return partly(taken > 0, message, hindered);
  }
  if (changed === 0) return actionResult("S_ALREADY", `in operation already: ${names}`);
  return actionResult("S_OK", `in operation: ${names}`);
}

/**
 * Returns the result of an addition that is done in part. Throws when neither this call nor an earlier one added a
 * device.
 */
function partly(isPartly: boolean, message: string, reasons: readonly string[]): ActionResult {
  if (isPartly) return actionResult("S_PARTLY", message);
  const more = reasons.length > MAX_REASONS ? `; and ${reasons.length - MAX_REASONS} more` : "";
  throw new InvalidStateError(`not added: ${reasons.slice(0, MAX_REASONS).join("; ")}${more}`);
}

function requireAlive({ state, hostId, stateMessage }: Host): void {
  if (state !== "DEAD") return;
  const message = `${stateMessage}; host ${hostId} is added once SetHostState revokes DEAD`;
  throw new InvalidStateError(message, { about: { host_id: hostId } });
}

function requireStaying({ removalRequested, hostId }: Host, names: string): void {
  if (!removalRequested) return;
  const message = `host ${hostId} of device ${names} is to be removed and takes no disks: keep the host with AddHost first`;
  throw new InvalidStateError(message, { reason: "HOST_BEING_REMOVED", about: { host_id: hostId } });
}

/** Returns the result for devices that another call adds once their agent has read them. */
function untilRead(reasons: readonly string[]): ActionResult {
  return tryAgain(reasons.join("; "), READING_RETRY_AFTER_MS);
}

/** Returns the result for an UNAVAILABLE host: the addition is stored and takes effect once the host is heard. */
function whileAway(name: string, { stateMessage }: Host, { waitingRetryAfterMs }: AddCall): ActionResult {
  return tryAgain(
    `${name}: taken in, but not in operation until the host sends heartbeats: ${stateMessage}`,
    waitingRetryAfterMs,
  );
}

/**
 * Returns why an added device cannot be used, and the remedy; undefined when it is usable or becomes usable by itself.
 */
function hindranceOf({ deviceId, health, healthMessage, replacement, ...device }: Device): string | undefined {
  if (replacement !== undefined)
    return `device ${deviceId}: ${whyReplaced({ deviceId, health, healthMessage, replacement, ...device })}`;
  if (health !== "ERROR") return undefined;
  return `device ${deviceId} is in error, and is attached once the error is repaired: ${healthMessage}`;
}

interface Added {
  /** Number of devices changed. */
  readonly changed: number;
  /** Number of devices that this or an earlier call took in. */
  readonly taken: number;
  /** Reasons why devices were left unchanged. */
  readonly refused: readonly string[];
  /** Reasons why devices are left unchanged until their agent has said more. */
  readonly unread: readonly string[];
  /** Reasons why added devices cannot be used. */
  readonly hindered: readonly string[];
  /** Devices whose replacement was accepted while the former hardware was not erased. */
  readonly unerased: readonly DeviceId[];
}

function addAll(tx: RegistryTransaction, devices: readonly Device[], call: AddCall): Added {
  const { nowMs, shared = NO_SHARED_SERIAL_NUMBERS, sliceBytes, sliceSizes } = call;
  let changed = 0;
  let taken = 0;
  const refused: string[] = [];
  const unread: string[] = [];
  const hindered: string[] = [];
  const unerased: DeviceId[] = [];
  let misplaced: readonly Device[] | undefined;
  const sharers = new SortedSharers(tx, shared);
  const host = tx.hosts.get(devices[0]?.hostId ?? "");
  for (const device of devices) {
    misplaced ??= [...tx.devices.by("usedByHost", device.hostId)].filter((each) => each.replacement !== undefined);
    const whyNotYet = isTakenIn(device) ? whyUnread(host, device) : undefined;
    if (whyNotYet !== undefined) {
      unread.push(whyNotYet);
      continue;
    }
    const why =
      (isTakenIn(device) ? whyForeign(tx, device, call.eraseForeign === true) : undefined) ??
      whyRefused(sharers.find, asAccepted(device)) ??
      whyMisplaced(device, misplaced) ??
      whyUnidentified(host, device, call) ??
      (sliceBytes === undefined ? undefined : whyNotDivided(host, asAccepted(device), sliceBytes));
    if (why !== undefined) {
      refused.push(why);
      continue;
    }
    const wished = withoutWish(takenIn(tx, device, nowMs, sharers.find));
    const added = host?.slices ? divided(wished, sliceBytes, sliceSizes) : wished;
    const hindrance = hindranceOf(added);
    if (hindrance !== undefined) hindered.push(hindrance);
    // A device with a disk whose place holds other hardware is not counted, because AddDevice does not accept a
    // replacement while a disk is on the device.
    if (added !== device || added.replacement === undefined) taken++;
    if (added === device) continue;
    tx.devices.put(added);
    sharers.note(added);
    changed++;
    if (device.replacement !== undefined && isDirty(device) && !holdsAnyDisk(device)) unerased.push(device.deviceId);
  }
  return { changed, taken, refused, unread, hindered, unerased };
}

/** Returns whether AddDevice replaces the device's recorded hardware by the hardware found in its place. */
function isTakenIn(device: Device): boolean {
  const { attachState, replacement } = device;
  const isIn = attachState === "ATTACHING" || attachState === "ATTACHED";
  return !holdsAnyDisk(device) && (!isIn || replacement !== undefined);
}

/**
 * Returns why the drive is not added: it is, or may be, a missing drive of the same host that holds a disk, and an
 * added drive is erased. Returns undefined when it may be added.
 */
function whyMisplaced(device: Device, misplaced: readonly Device[]): string | undefined {
  if (!isTakenIn(device)) return undefined;
  const found = asAccepted(device);
  const isUnidentified = identifiedBy(found) === "NONE";
  const other = misplaced.find((each) =>
    isUnidentified ? fileDifference(each, found) === undefined : isKnownSame(each, found),
  );
  if (other === undefined) return undefined;
  const { deviceId } = other;
  return `device ${device.deviceId} ${isUnidentified ? "may be" : "is"} the drive of device ${deviceId}, which is missing from its place and holds ${disksText(other)}: repair or remove device ${deviceId} first`;
}

function whyUnidentified(
  host: Host | undefined,
  device: Device,
  { acceptUnidentified, sliceBytes, sliceSizes }: AddCall,
): string | undefined {
  const { deviceId, hostId } = device;
  if (acceptUnidentified || !isTakenIn(device)) return undefined;
  const accepted = asAccepted(device);
  if (identifiedBy(accepted) !== "NONE") return undefined;
  // Such a device gets a label, which identifies it.
  const getsLabel = host?.slices && device.labelState !== undefined;
  if (getsLabel && divided(accepted, sliceBytes, sliceSizes).sliceBytes !== undefined) return undefined;
  return `device ${deviceId} of host ${hostId} has no unique serial number, so it cannot be told from another drive after a reboot, and waits for ConfirmDevice after each: give the drive a serial number in its hypervisor, or use a logical volume on it; to accept the wait, add the device with accept_unidentified (diskmesh add-device ${hostId} ${deviceId} --accept-unidentified)`;
}

/**
 * Returns the device with the hardware found in its place, and without the claim to bytes that only the addition gives
 * it.
 */
function asAccepted(device: Device): Device {
  if (holdsAnyDisk(device)) return device;
  const found = foundInPlace(device);
  const isNew = found !== undefined || device.attachState === "CLOSING";
  return isNew ? { ...device, ...found, attachState: "UNKNOWN" } : device;
}

/** Returns the identity that AddDevice records: that of other hardware, or of the same hardware with its grown size. */
function foundInPlace({ replacement, grownToBytes }: Device): Partial<DeviceIdentity> | undefined {
  if (replacement !== undefined) return identityOf(replacement);
  return grownToBytes === undefined ? undefined : { sizeBytes: grownToBytes };
}

function takenIn(tx: RegistryTransaction, device: Device, nowMs: number, findSharers: FindSharers): Device {
  const added = acceptReplacement(tx, device, advance(tx, device, "add", nowMs), nowMs);
  const advanced = added.foundLabel !== undefined && isTakenIn(device) ? overwritten(tx, added) : added;
  // An agent that opens a file compares it with the recorded identity. Without an identity it would open any drive of
  // that size.
  const isNew = device.attachState !== "ATTACHING" && device.attachState !== "ATTACHED";
  const ended = isTakenIn(device) ? withSessionsEnded(tx, advanced) : advanced;
  if (!isNew) return ended;
  // Distrusts the contents of a device that was out of operation: another device on its bytes may have been added
  // meanwhile and have written to them.
  const hasSharer = [...findSharers(device)].length > 0;
  return hasSharer || !isKnownSame(device, device) ? distrusted(ended) : ended;
}

function withoutWish(device: Device): Device {
  if (!device.removalRequested) return device;
  const { keepData: _, removalRequestedAtMs: __, leavesAs: ___, ...rest } = device;
  return { ...rest, removalRequested: false };
}

/**
 * Records other or grown hardware as the device's, with unknown contents. Does nothing while a disk is on the device.
 */
function acceptReplacement(tx: RegistryTransaction, before: Device, device: Device, nowMs: number): Device {
  const found = foundInPlace(device);
  if (found === undefined || holdsAnyDisk(device)) return device;
  // The new generation invalidates answers to orders for the former hardware.
  const ordered = device.generation === before.generation ? advance(tx, device, "replacement_accepted", nowMs) : device;
  const { replacement, grownToBytes: _, ...rest } = ordered;
  const accepted = allDirty({ ...(replacement === undefined ? rest : unlabelled(rest)), ...found, ...WELL });
  // A grown drive is the same hardware, so its hardware errors and overrides stay.
  return replacement === undefined ? withReportedHealth(accepted, WELL, nowMs) : withoutKeptHealth(accepted);
}
