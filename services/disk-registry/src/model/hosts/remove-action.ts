import { countText, type DiskId, type HostId } from "@diskmesh/domain";
import { type ActionResult, actionResult, named, tryAgain } from "../devices/action-result.js";
import { advance } from "../devices/attach-states.js";
import { type DeviceSelector, devicesOfHost, requireDevices, requireHost } from "../devices/device-selection.js";
import { pendingText } from "../devices/pending.js";
import {
  type EraseLimits,
  type EraseWatch,
  mustBeErased,
  unerasedIn,
  unerasedNote,
  whileErasing,
} from "../devices/removal-erase.js";
import { diskHealth } from "../disks/disks.js";
import { leftMsOf, type MoveProgress } from "../disks/move-progress.js";
import { moveText } from "../disks/move-text.js";
import { moveAway } from "../disks/removal-moves.js";
import {
  type Device,
  type Host,
  isAway,
  isLeftAlone,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { disksLostOn, lostText } from "./lost-disks.js";
import { giveUpOnHost, type RegistryTime, removalLeftMs, removalTimedOut } from "./removal-timeout.js";

export interface RemovalLimits extends EraseLimits {
  /** Time in ms that a removal waits for an UNAVAILABLE host's confirmation. */
  readonly unavailableRemovalTimeoutMs: number;
  /** Upper limit of `retry_after` while waiting. */
  readonly maxWaitingRetryAfterMs: number;
  /** `retry_after` while agents close devices. */
  readonly closingRetryAfterMs: number;
}

/** Options of a removal, and its inputs that are not in the tables. */
export interface RemovalCall extends EraseWatch, RegistryTime {
  /** True lets devices leave without an erase. The last call's value counts. */
  readonly keepData: boolean;
  readonly limits: RemovalLimits;
  /** Returns the progress of a disk's move, which is kept in memory only. */
  readonly moveProgressOf: (diskId: DiskId) => MoveProgress | undefined;
}

/** Takes a host and all its devices out of operation, as far as that is possible now. */
export function removeHost(tx: RegistryTransaction, hostId: HostId, call: RemovalCall): ActionResult {
  const host = requireHost(tx, hostId);
  if (!host.removalRequested) tx.hosts.put({ ...host, removalRequested: true });
  const uses = { servedDiskIds: disksServedBy(tx, hostId), vmCid: host.assignment?.vmCid };
  return removeAll(tx, { name: `host ${hostId}`, devices: devicesOfHost(tx, hostId), ...uses }, call);
}

/** Takes one device, or all devices on a path, out of operation, as far as that is possible now. */
export function removeDevice(tx: RegistryTransaction, selector: DeviceSelector, call: RemovalCall): ActionResult {
  const devices = requireDevices(tx, selector);
  const names = devices.map((device) => device.deviceId).join(", ");
  // One device's removal does not wait for disks that the host serves or for its VM.
  const uses = { servedDiskIds: [], vmCid: undefined };
  return removeAll(tx, { name: `device ${names}`, devices, ...uses }, call);
}

/** Devices of one removal, and the uses that block it. */
interface Removal {
  readonly name: string;
  /** All devices are of one host. */
  readonly devices: readonly Device[];
  /** Disks that the host serves, or may still serve. */
  readonly servedDiskIds: readonly DiskId[];
  /** The VM that runs on the host. */
  readonly vmCid: string | undefined;
}

function removeAll(tx: RegistryTransaction, removal: Removal, call: RemovalCall): ActionResult {
  const { name } = removal;
  const { limits, nowMs, listenedMs } = call;
  const devices = removal.devices.map((device) => noteWish(tx, device, call));
  moveAway(tx, devices, nowMs);
  const host = tx.hosts.get(devices[0]?.hostId ?? "");
  const inUse = whileInUse(tx, { ...removal, devices }, host, call);
  if (inUse !== undefined) return inUse;
  const isLost = host !== undefined && removalTimedOut(host, limits, listenedMs);
  const toErase = devices.filter(mustBeErased);
  if (toErase.length > 0 && !isLost) {
    if (host !== undefined && isAway(host)) return whileUnavailable(name, host, "erase or confirm", call);
    return whileErasing(name, toErase, call);
  }
  let removed = devices.map((device) => removeOne(tx, device, nowMs));
  if (isLost && giveUpOnHost(tx, host.hostId, limits, call) > 0)
    removed = removed.map((device) => tx.devices.get(device.deviceId) ?? device);
  const closing = removed.filter((device) => isBeingClosed(device, isLost));
  if (closing.length > 0) return whileClosing(name, host, closing, call);
  const unerasedDeviceIds = unerasedIn(removed);
  const notes = `${unconfirmedNote(removed)}${unerasedNote(unerasedDeviceIds)}`;
  return { ...actionResult("S_OK", `${name} is out of operation${notes}`), unerasedDeviceIds };
}

export function disksOn(devices: readonly Device[]): readonly DiskId[] {
  const diskIds = new Set<DiskId>();
  for (const { diskId } of devices) if (diskId !== "") diskIds.add(diskId);
  return [...diskIds].sort();
}

/** Returns disks that are published to the host, being published to it, or not yet fenced off from it. */
export function disksServedBy(tables: RegistryTables, hostId: HostId): readonly DiskId[] {
  return [...tables.disks.by("byPublicationHost", hostId)].map((disk) => disk.diskId).sort();
}

function whileInUse(
  tables: RegistryTables,
  removal: Removal,
  host: Host | undefined,
  call: RemovalCall,
): ActionResult | undefined {
  const { name, devices, servedDiskIds, vmCid } = removal;
  const heldDiskIds = disksOn(devices);
  const isBroken = heldDiskIds.some((diskId) => isBrokenDisk(tables, diskId));
  const isSilent = host !== undefined && isAway(host);
  const uses: string[] = [];
  if (isSilent) uses.push(...lossOf(tables, host, { heldDiskIds, devices }, call));
  else if (heldDiskIds.length > 0) {
    const waysOut = isBroken
      ? "the bytes of faulty ones cannot be read: delete them with DeleteDisk, or lose them with the host by PurgeHost with force"
      : "they move to other devices by themselves";
    uses.push(`holds ${countText(heldDiskIds.length, "disk")} (${waysOut}): ${described(tables, heldDiskIds, call)}`);
  }
  if (servedDiskIds.length > 0) {
    const waysOut = isSilent ? "take them from it with FenceHost" : "unpublish them";
    uses.push(
      `serves ${countText(servedDiskIds.length, "disk")} (${waysOut}): ${described(tables, servedDiskIds, call)}`,
    );
  }
  if (vmCid !== undefined) uses.push(`is VM ${vmCid} (delete it)`);
  const unknown = devices.filter(isLeftAlone).map((device) => device.deviceId);
  if (unknown.length > 0)
    uses.push(
      `has ${countText(unknown.length, "device that is", "devices that are")} held by an unknown disk (DecideUnknownDisks): ${named(unknown)}`,
    );
  if (uses.length === 0) return undefined;
  const dependentDiskIds = [...new Set([...heldDiskIds, ...servedDiskIds])].sort();
  const message = `${name} is to be removed, and still ${uses.join("; it ")}`;
  const retryAfterMs = isBroken ? brokenRetryAfterMs(devices, call) : movingRetryAfterMs(heldDiskIds, call);
  return tryAgain(message, retryAfterMs, dependentDiskIds);
}

/** Returns texts about the disks of a host that cannot be asked: they wait for it, or are lost after the timeout. */
function lossOf(
  tables: RegistryTables,
  host: Host,
  { heldDiskIds, devices }: { readonly heldDiskIds: readonly DiskId[]; readonly devices: readonly Device[] },
  call: RemovalCall,
): readonly string[] {
  const { hostId, state } = host;
  const { limits, listenedMs } = call;
  const lost = removalTimedOut(host, limits, listenedMs) ? disksLostOn(tables, devices) : [];
  const others = heldDiskIds.filter((diskId) => !lost.some((each) => each.diskId === diskId));
  const texts: string[] = [];
  if (lost.length > 0) {
    const waysOut = `host ${hostId} is ${state}, and nobody else has these bytes: start the host again, or accept the loss by DeleteDisk, or by PurgeDevice or PurgeHost with force`;
    texts.push(`holds ${countText(lost.length, "lost disk")} (${waysOut}): ${lostText(tables, lost)}`);
  }
  if (others.length > 0) {
    const leftMs = removalLeftMs(host, limits.unavailableRemovalTimeoutMs, listenedMs);
    const when = leftMs === 0 ? "" : `; what cannot be read counts as lost in ${Math.ceil(leftMs / 1_000)} s`;
    const why = `host ${hostId} is ${state}${when}`;
    texts.push(`holds ${countText(others.length, "disk")} (${why}): ${described(tables, others, call)}`);
  }
  return texts;
}

function isBrokenDisk(tables: RegistryTables, diskId: DiskId): boolean {
  const disk = tables.disks.get(diskId);
  return disk !== undefined && diskHealth(tables, disk).health === "ERROR";
}

/** Lists disks with their states, because a person who decides on a disk must know whether it is or can be in use. */
function described(tables: RegistryTables, diskIds: readonly DiskId[], { moveProgressOf }: RemovalCall): string {
  const texts = diskIds.map((diskId) => {
    const disk = tables.disks.get(diskId);
    if (disk === undefined) return diskId;
    const { publication } = disk;
    const { health, message } = diskHealth(tables, disk);
    const where = publication === undefined ? "unpublished" : `${publication.state} to ${publication.hostId}`;
    const move = moveText(tables, diskId, moveProgressOf(diskId));
    return `${diskId} (${where}, ${health === "ONLINE" ? health : `${health}: ${message}`}${move ? `; ${move}` : ""})`;
  });
  return named(texts);
}

/**
 * Returns the retry delay while a broken disk blocks the removal: the time waited so far, within limits, because only
 * an operator can end this wait.
 */
function brokenRetryAfterMs(devices: readonly Device[], { limits, nowMs }: RemovalCall): number {
  const since = devices.map(({ removalRequestedAtMs = nowMs }) => removalRequestedAtMs);
  const waitedMs = nowMs - Math.min(...since);
  return Math.min(Math.max(waitedMs, limits.waitingRetryAfterMs), limits.maxWaitingRetryAfterMs);
}

/** Returns the retry delay while disks move: the time until the last of their running copies ends, within limits. */
function movingRetryAfterMs(diskIds: readonly DiskId[], { limits, moveProgressOf }: RemovalCall): number {
  const { closingRetryAfterMs, waitingRetryAfterMs } = limits;
  const leftMs = diskIds.map((diskId) => {
    const copy = moveProgressOf(diskId)?.copy;
    return (copy && leftMsOf(copy)) ?? waitingRetryAfterMs;
  });
  return Math.min(Math.max(closingRetryAfterMs, ...leftMs), waitingRetryAfterMs);
}

/**
 * Stores that the device is to be removed. A device that is closing or has left keeps its former `keepData`, because it
 * can no longer be erased.
 */
function noteWish(tx: RegistryTransaction, device: Device, { keepData, nowMs }: RemovalCall): Device {
  if (device.attachState !== "ATTACHING" && device.attachState !== "ATTACHED") return device;
  const { keepData: kept, ...rest } = device;
  if (device.removalRequested && (kept ?? false) === keepData) return device;
  const removalRequestedAtMs = device.removalRequested ? device.removalRequestedAtMs : nowMs;
  const since = removalRequestedAtMs !== undefined && { removalRequestedAtMs };
  const wished = { ...rest, removalRequested: true, ...since, ...(keepData && { keepData }) };
  tx.devices.put(wished);
  return wished;
}

function removeOne(tx: RegistryTransaction, device: Device, nowMs: number): Device {
  const removed = advance(tx, device, "remove", nowMs);
  if (removed === device) return device;
  // Clears the erase's session: a late answer would be about an erase from before the device left, and others may have
  // written to the device since.
  const left = { ...removed, eraseSessionNumber: 0 };
  tx.devices.put(left);
  return left;
}

/**
 * Returns whether the agent must still confirm the close. That includes an UNKNOWN device: an agent opens a device that
 * it finds before the registry has answered that it is not in operation.
 */
function isBeingClosed({ attachState, detachConfirmed }: Device, isLost: boolean): boolean {
  return attachState === "CLOSING" || (attachState === "UNKNOWN" && !detachConfirmed && !isLost);
}

function whileClosing(
  name: string,
  host: Host | undefined,
  closing: readonly Device[],
  call: RemovalCall,
): ActionResult {
  if (host !== undefined && isAway(host)) return whileUnavailable(name, host, "confirm", call);
  const failing = closing.find((device) => device.lastError !== "");
  const error = failing === undefined ? "" : `; last error, of device ${failing.deviceId}: ${failing.lastError}`;
  const waiting = closing.flatMap(({ pending }) => (pending === undefined ? [] : pendingText(pending, call.nowMs)));
  const waits = waiting.length === 0 ? "" : `; waits for: ${named(waiting)}`;
  return tryAgain(
    `${name}: ${countText(closing.length, "device is", "devices are")} being closed by the agent${error}${waits}`,
    call.limits.closingRetryAfterMs,
  );
}

function whileUnavailable(
  name: string,
  host: Host,
  missing: string,
  { limits, listenedMs }: RemovalCall,
): ActionResult {
  const leftMs = removalLeftMs(host, limits.unavailableRemovalTimeoutMs, listenedMs);
  const message = `${name}: host ${host.hostId} is UNAVAILABLE and cannot ${missing}; it counts as removed in ${Math.ceil(leftMs / 1000)} s`;
  return tryAgain(message, Math.min(Math.max(leftMs, limits.closingRetryAfterMs), limits.waitingRetryAfterMs));
}

function unconfirmedNote(devices: readonly Device[]): string {
  const unconfirmed = devices.filter((device) => !device.detachConfirmed);
  if (unconfirmed.length === 0) return "";
  const names = named(unconfirmed.map((device) => device.deviceId));
  return `; the close was not confirmed, so the host may still use: ${names}`;
}
