import { countText, type DiskId, type HostId } from "@diskmesh/domain";
import { type ActionResult, actionResult, named, tryAgain } from "../devices/action-result.js";
import { type DeviceSelector, devicesOfHost, requireDevices, requireHost } from "../devices/device-selection.js";
import { pendingText } from "../devices/pending.js";
import { type EraseLimits, type EraseWatch, unerasedIn, unerasedNote, whileErasing } from "../devices/removal-erase.js";
import { deleteNow, namedDisk } from "../disks/disk-text.js";
import { diskHealth } from "../disks/disks.js";
import { leftMsOf, type MoveProgress } from "../disks/move-progress.js";
import { moveText } from "../disks/move-text.js";
import { vmOfPublication } from "../disks/publications.js";
import { moveAway } from "../disks/removal-moves.js";
import {
  type Device,
  type Host,
  isAway,
  isHeld,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { disksLostOn, lostText } from "./lost-disks.js";
import { type Removal, type RemovalStep, type RemovalUses, reread, takeStep } from "./removal-step.js";
import { type RegistryTime, removalLeftMs, removalTimedOut } from "./removal-timeout.js";

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

/** Stores that a host is to be removed with all its devices. Returns how far that is. */
export function removeHost(tx: RegistryTransaction, hostId: HostId, call: RemovalCall): ActionResult {
  const before = requireHost(tx, hostId);
  const host = before.removalRequested ? before : { ...before, removalRequested: true };
  if (host !== before) tx.hosts.put(host);
  const devices = devicesOfHost(tx, hostId).map((device) => noteWish(tx, device, call));
  return removeAll(tx, `host ${hostId}`, { host, devices, isOfHost: true }, call);
}

/** Stores that one device, or all devices on a path, are to be removed. Returns how far that is. */
export function removeDevice(tx: RegistryTransaction, selector: DeviceSelector, call: RemovalCall): ActionResult {
  const leavesAs = "deviceId" in selector ? "DEVICE" : "PATH";
  const devices = requireDevices(tx, selector).map((device) => noteWish(tx, device, call, leavesAs));
  const host = tx.hosts.get(devices[0]?.hostId ?? "");
  const names = devices.map((device) => device.deviceId).join(", ");
  return removeAll(tx, `device ${names}`, { host, devices, isOfHost: false }, call);
}

function removeAll(tx: RegistryTransaction, name: string, removal: Removal, call: RemovalCall): ActionResult {
  moveAway(tx, removal.devices, call.nowMs);
  const step = takeStep(tx, removal, call);
  return answerOf(tx, name, step, reread(tx, removal), call);
}

function answerOf(
  tables: RegistryTables,
  name: string,
  step: RemovalStep,
  removal: Removal,
  call: RemovalCall,
): ActionResult {
  switch (step.kind) {
    case "in_use":
      return whileInUse(tables, name, removal, step.uses, call);
    case "erasing":
      return whileErasing(name, step.devices, call);
    case "away":
      return whileUnavailable(name, step.host, step.missing, call);
    case "close":
    case "closing":
      return whileClosing(name, step.devices, call);
    case "out":
      return whenOut(name, removal.devices);
  }
}

function whenOut(name: string, devices: readonly Device[]): ActionResult {
  const unerasedDeviceIds = unerasedIn(devices);
  const notes = `${unconfirmedNote(devices)}${unerasedNote(unerasedDeviceIds)}`;
  return { ...actionResult("S_OK", `${name} is out of operation${notes}`), unerasedDeviceIds };
}

function whileInUse(
  tables: RegistryTables,
  name: string,
  { host, devices }: Removal,
  { heldDiskIds, servedDiskIds, vmCid, unknown }: RemovalUses,
  call: RemovalCall,
): ActionResult {
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
    const waysOut = isSilent ? "take them from it with FenceHost" : "detach them where they were attached";
    uses.push(
      `serves ${countText(servedDiskIds.length, "disk")} (${waysOut}): ${described(tables, servedDiskIds, call)}`,
    );
  }
  if (vmCid !== undefined) uses.push(`is VM ${vmCid} (delete it)`);
  if (unknown.length > 0)
    uses.push(
      `has ${countText(unknown.length, "device that is", "devices that are")} held by an unknown disk (DecideUnknownDisks): ${named(unknown.map((device) => device.deviceId))}`,
    );
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
    const when = leftMs === 0 ? "" : `; unreadable data counts as lost in ${Math.ceil(leftMs / 1_000)} s`;
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
    const { publication, deleted } = disk;
    const { health, message } = diskHealth(tables, disk);
    const vmCid = publication === undefined ? "" : vmOfPublication(tables, publication);
    const user = vmCid === "" ? "the host itself" : `VM ${vmCid}`;
    const unused = deleted === undefined ? "unpublished" : `deleted; to erase it: ${deleteNow(diskId)}`;
    const where = publication === undefined ? unused : `${publication.state} to ${publication.hostId} for ${user}`;
    const move = moveText(tables, diskId, moveProgressOf(diskId));
    return `${namedDisk(tables, diskId)} (${where}, ${health === "ONLINE" ? health : `${health}: ${message}`}${move ? `; ${move}` : ""})`;
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
function noteWish(
  tx: RegistryTransaction,
  device: Device,
  { keepData, nowMs }: RemovalCall,
  leavesAs = device.leavesAs,
): Device {
  if (!isHeld(device)) return device;
  const { keepData: kept, ...rest } = device;
  if (device.removalRequested && (kept ?? false) === keepData && leavesAs === device.leavesAs) return device;
  const removalRequestedAtMs = device.removalRequested ? device.removalRequestedAtMs : nowMs;
  const since = removalRequestedAtMs !== undefined && { removalRequestedAtMs };
  const wished = {
    ...rest,
    removalRequested: true,
    ...since,
    ...(keepData && { keepData }),
    ...(leavesAs && { leavesAs }),
  };
  tx.devices.put(wished);
  return wished;
}

function whileClosing(name: string, closing: readonly Device[], call: RemovalCall): ActionResult {
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
