import {
  AbortedError,
  type DeviceId,
  type DiskId,
  type HostId,
  InvalidStateError,
  NotFoundError,
  UnavailableError,
} from "@diskmesh/domain";
import { nextSessionNumber } from "../devices/counters.js";
import { requireHost } from "../devices/device-selection.js";
import { whyElsewhere, whyUnknown } from "../devices/unknown-disks.js";
import { countingDevices } from "../store/layout.js";
import { holds } from "../store/runs.js";
import type {
  Disk,
  Fence,
  Host,
  PendingDevice,
  Publication,
  RegistryTables,
  RegistryTransaction,
} from "../store/schema.js";
import { forPublication, withoutSessions } from "./copy-marks.js";
import { keptText } from "./disk-text.js";
import { NOBODY_SUSPECTED, type WhySuspected, whyNotAsked } from "./placement.js";
import { requireRegistration } from "./remembered.js";
import { planSession } from "./session-plan.js";

/**
 * Progress of a request: the disk has reached the requested state, is on its way, or is still busy with the opposite
 * change.
 */
type PublicationProgress = "reached" | "under_way" | "busy";

export interface PublicationStep {
  readonly progress: PublicationProgress;
  readonly disk: Disk;
}

/** Returns the disk. A deleted one exists only for calls that bring it back, end it, or move its bytes. */
export function requireDisk(tables: RegistryTables, diskId: DiskId): Disk {
  const disk = requireKeptDisk(tables, diskId);
  if (disk.deleted === undefined) return disk;
  throw new NotFoundError(keptText(diskId, disk.deleted), { about: { disk_id: diskId } });
}

/** Returns the disk, also one that is deleted and kept. */
export function requireKeptDisk(tables: RegistryTables, diskId: DiskId): Disk {
  const disk = tables.disks.get(diskId);
  if (disk === undefined) throw new NotFoundError(`there is no disk ${diskId}`, { about: { disk_id: diskId } });
  return disk;
}

export interface PublishOptions {
  readonly whySuspected?: WhySuspected;
  /** Undefined keeps the current rule; a new publication gets the disk's. */
  readonly onHostSilence?: "KEEP" | "FENCE" | undefined;
  readonly readOnly?: boolean | undefined;
  /** VM that the request named; empty when it named the host. */
  readonly vmCid?: string;
}

/** Stores that a disk is wanted on a host. Workers act only after the commit. */
export function requestPublish(
  tx: RegistryTransaction,
  diskId: DiskId,
  hostId: HostId,
  { whySuspected = NOBODY_SUSPECTED, onHostSilence, readOnly = false, vmCid = "" }: PublishOptions = {},
): PublicationStep {
  const disk = requireDisk(tx, diskId);
  const host = requireHost(tx, hostId);
  const { publication } = disk;
  if (publication?.state === "UNPUBLISHING") return { progress: "busy", disk };
  if (publication !== undefined && publication.hostId !== hostId)
    throw publishedElsewhere(tx, disk, publication, hostId);
  if (publication !== undefined && readOnly !== (publication.readOnly ?? false))
    throw publishedOtherwise(tx, disk, publication, readOnly);
  if (publication !== undefined)
    return {
      progress: publication.state === "PUBLISHED" ? "reached" : "under_way",
      disk: withSilenceRule(tx, disk, publication, onHostSilence),
    };
  requirePublishable(tx, disk, host, whySuspected);
  const { fence: _, ...rest } = disk;
  const rule = (onHostSilence ?? disk.onHostSilence) === "FENCE" && ({ onHostSilence: "FENCE" } as const);
  const access = readOnly && ({ readOnly } as const);
  const noted = putPublication(tx, rest, { hostId, state: "PUBLISHING", ...rule, ...access, vmCid });
  return { progress: "under_way", disk: markUnasked(tx, noted) };
}

/**
 * Marks a publication whose devices cannot all be asked now. No device is asked for such a session, so it can be
 * withdrawn without a fence.
 */
function markUnasked(tx: RegistryTransaction, disk: Disk): Disk {
  if (disk.publication === undefined || planSession(tx, disk.diskId)?.blocked === undefined) return disk;
  const put: Disk = { ...disk, publication: { ...disk.publication, unasked: true } };
  tx.disks.put(put);
  return put;
}

/**
 * Records that devices are about to be asked for the session; must run before the first request. Returns false when the
 * wanted state changed meanwhile; the caller then asks no device.
 */
export function markAsked(tx: RegistryTransaction, diskId: DiskId, seen: Publication): boolean {
  const disk = tx.disks.get(diskId);
  if (disk?.publication === undefined || !isCurrent(tx, diskId, seen)) return false;
  const { unasked: _, ...publication } = disk.publication;
  tx.disks.put({ ...disk, publication });
  return true;
}

/** Returns the disk with the silence rule that the latest request wants, and stores the disk when the rule changes. */
function withSilenceRule(
  tx: RegistryTransaction,
  disk: Disk,
  publication: Publication,
  wanted: PublishOptions["onHostSilence"],
): Disk {
  const { onHostSilence, ...rest } = publication;
  if (wanted === undefined || (onHostSilence ?? "KEEP") === wanted) return disk;
  const put = { ...disk, publication: wanted === "FENCE" ? { ...rest, onHostSilence: wanted } : rest };
  tx.disks.put(put);
  return put;
}

/** Returns the progress of a requested publication. Throws when another request has replaced the publication. */
export function publishProgress(tables: RegistryTables, diskId: DiskId, hostId: HostId): PublicationStep {
  const disk = requireDisk(tables, diskId);
  const { publication } = disk;
  if (publication?.hostId !== hostId || publication.state === "UNPUBLISHING") {
    throw new AbortedError(`disk ${diskId} was unpublished while it was being published to host ${hostId}`, {
      about: { disk_id: diskId },
    });
  }
  return { progress: publication.state === "PUBLISHED" ? "reached" : "under_way", disk };
}

/**
 * Stores that a disk is wanted nowhere, or, with `hostId`, not on that host. Gives the disk a new session without a
 * holder; the disk counts as unpublished once every device has granted it.
 */
export function requestUnpublish(tx: RegistryTransaction, diskId: DiskId, hostId: HostId | undefined): PublicationStep {
  const disk = requireDisk(tx, diskId);
  const { publication } = disk;
  if (publication === undefined) return { progress: "reached", disk };
  if (hostId !== undefined && publication.hostId !== hostId) return { progress: "reached", disk };
  const ending = beginUnpublish(tx, disk);
  return { progress: ending.publication === undefined ? "reached" : "under_way", disk: ending };
}

/**
 * Returns the progress of a requested unpublication. Any state other than UNPUBLISHING means that the fence is
 * complete.
 */
export function unpublishProgress(tables: RegistryTables, diskId: DiskId): PublicationStep {
  const disk = requireDisk(tables, diskId);
  return { progress: disk.publication?.state === "UNPUBLISHING" ? "under_way" : "reached", disk };
}

export function beginUnpublish(tx: RegistryTransaction, disk: Disk): Disk {
  const { publication } = disk;
  if (publication === undefined || publication.state === "UNPUBLISHING") return disk;
  return putPublication(tx, disk, { ...publication, state: "UNPUBLISHING" });
}

/** Starts the fence again, because a device that counted as fenced while it was purged or missing has come back. */
export function fenceAnew(tx: RegistryTransaction, disk: Disk, hostId: HostId): void {
  putPublication(tx, disk, { hostId: disk.fence?.hostId ?? hostId, state: "UNPUBLISHING" });
}

/**
 * Takes a disk from its host without the host's cooperation. An unpublication that waits for the host becomes a fence.
 */
export function takeAway(tx: RegistryTransaction, disk: Disk, fence: Fence): void {
  const { publication } = disk;
  if (publication?.hostId !== fence.hostId || isFence(disk)) return;
  putPublication(tx, { ...disk, fence }, { ...publication, state: "UNPUBLISHING" });
}

/** Returns whether the disk is being, or was, taken from its host without the host's cooperation. */
export function isFence({ publication, fence }: Disk): boolean {
  return fence !== undefined && (publication === undefined || publication.state === "UNPUBLISHING");
}

/** Publishes again under a new session, because the host lost its export or a device lost its session. */
export function restartPublication(tx: RegistryTransaction, disk: Disk, publication: Publication): void {
  putPublication(tx, disk, { ...publication, state: "PUBLISHING" });
}

/**
 * Stores the publication with a new session. Deletes it instead when the new state is UNPUBLISHING and no device has
 * been asked for any of its sessions (unasked), because nothing has to be fenced.
 */
export function putPublication(
  tx: RegistryTransaction,
  disk: Disk,
  {
    hostId,
    state,
    onHostSilence,
    readOnly,
    vmCid,
    unasked,
  }: Pick<Publication, "hostId" | "state" | "onHostSilence" | "readOnly" | "vmCid" | "unasked">,
): Disk {
  if (unasked && state === "UNPUBLISHING") {
    const { publication: _, ...unpublished } = disk;
    tx.disks.put(unpublished);
    return unpublished;
  }
  const publication: Publication = {
    hostId,
    state,
    ...(onHostSilence && { onHostSilence }),
    ...(readOnly && { readOnly }),
    ...(vmCid !== undefined && { vmCid }),
    sessionNumber: nextSessionNumber(tx),
    exportPath: "",
    attempts: 0,
    lastError: "",
  };
  const put = forPublication(tx, disk, publication);
  tx.disks.put(put);
  return put;
}

/** Returns the VM for which a disk is published; empty for the host alone. 0.1.0 published for the VM of the host, if any. */
export function vmOfPublication({ hosts }: RegistryTables, { vmCid, hostId }: Publication): string {
  return vmCid ?? hosts.get(hostId)?.assignment?.vmCid ?? "";
}

/** Returns the action that frees the disk for another host or for deletion. */
export function howToEnd({ hosts }: RegistryTables, { hostId }: Publication): string {
  const state = hosts.get(hostId)?.state;
  if (state !== "UNAVAILABLE" && state !== "DEAD") return "unpublish it first";
  return `unpublish it first; because host ${hostId} is ${state} and cannot answer, FenceHost takes the disk from it`;
}

function publishedElsewhere(tables: RegistryTables, disk: Disk, publication: Publication, hostId: HostId): Error {
  return new InvalidStateError(
    `disk ${disk.diskId} is ${publication.state} to host ${publication.hostId}, not to ${hostId}: ${howToEnd(tables, publication)}`,
    { reason: "DISK_IN_USE", about: { disk_id: disk.diskId, host_id: publication.hostId } },
  );
}

function publishedOtherwise(tables: RegistryTables, disk: Disk, publication: Publication, readOnly: boolean): Error {
  const [now, wanted] = readOnly ? ["writable", "read-only"] : ["read-only", "writable"];
  return new InvalidStateError(
    `disk ${disk.diskId} is ${publication.state} to host ${publication.hostId} as ${now}, not as ${wanted}: ${howToEnd(tables, publication)}`,
    { reason: "DISK_IN_USE", about: { disk_id: disk.diskId, host_id: publication.hostId } },
  );
}

function requirePublishable(tables: RegistryTables, disk: Disk, host: Host, whySuspected: WhySuspected): void {
  const about = { disk_id: disk.diskId };
  const whyNot = whyNotAsked(host, whySuspected);
  if (whyNot !== undefined)
    throw new UnavailableError(`disk ${disk.diskId} cannot be published to host ${host.hostId}: ${whyNot}`, { about });
  if (host.removalRequested) {
    throw new InvalidStateError(
      `disk ${disk.diskId} cannot be published to host ${host.hostId}, which is to be removed: choose another host, or keep this host with AddHost`,
      { reason: "HOST_BEING_REMOVED", about: { ...about, host_id: host.hostId } },
    );
  }
  const elsewhere = whyElsewhere(tables, disk.diskId);
  if (elsewhere !== undefined)
    throw new InvalidStateError(`disk ${disk.diskId} cannot be published: ${elsewhere}`, { about });
  for (const deviceId of countingDevices(disk)) {
    const fault = deviceFault(tables, disk, deviceId);
    if (fault !== undefined)
      throw new InvalidStateError(`disk ${disk.diskId} cannot be published: ${fault}`, { about });
  }
  for (const deviceId of countingDevices(disk)) {
    const holder = tables.hosts.get(tables.devices.get(deviceId)?.hostId ?? "");
    const whyHolderNot = holder && whyNotAsked(holder, whySuspected);
    if (whyHolderNot === undefined) continue;
    throw new UnavailableError(`disk ${disk.diskId} cannot be published: its device ${deviceId}: ${whyHolderNot}`, {
      about,
    });
  }
}

/**
 * Returns why a device stays unusable until somebody acts; undefined otherwise. ATTACHING devices become usable by
 * themselves.
 */
function deviceFault(tables: RegistryTables, disk: Disk, deviceId: DeviceId): string | undefined {
  const device = tables.devices.get(deviceId);
  if (device === undefined || !holds(device, disk.diskId)) return `its device ${deviceId} was purged`;
  const unknown = whyUnknown(device);
  if (unknown !== undefined) return `its ${unknown}`;
  if (device.health === "ERROR")
    return `its device ${deviceId} on host ${device.hostId} is in error: ${device.healthMessage}`;
  if (device.attachState === "ATTACHED" || device.attachState === "ATTACHING") return undefined;
  return `its device ${deviceId} on host ${device.hostId} is ${device.attachState}`;
}

/**
 * Returns whether the publication is still the same as `seen`. Another request may have replaced it during an await.
 */
export function isCurrent(tables: RegistryTables, diskId: DiskId, seen: Publication): boolean {
  const now = tables.disks.get(diskId)?.publication;
  return now !== undefined && now.sessionNumber === seen.sessionNumber && now.state === seen.state;
}

/**
 * Takes a new session for the next try, because an agent has seen a higher session number. A published disk is then
 * published again.
 */
export function renewSession(tx: RegistryTransaction, diskId: DiskId, seen: Publication): void {
  const disk = tx.disks.get(diskId);
  if (disk?.publication === undefined || !isCurrent(tx, diskId, seen)) return;
  if (seen.state === "PUBLISHED") restartPublication(tx, disk, disk.publication);
  else putPublication(tx, disk, disk.publication);
}

/**
 * Marks the disk PUBLISHED once every device has granted the session and the host serves it, unless the wanted state
 * changed meanwhile.
 */
export function completePublish(
  tx: RegistryTransaction,
  diskId: DiskId,
  seen: Publication,
  { exportPath, fixedSize }: { readonly exportPath: string; readonly fixedSize: boolean },
): void {
  const disk = tx.disks.get(diskId);
  const publication = disk?.publication;
  if (disk === undefined || publication === undefined || !isCurrent(tx, diskId, seen)) return;
  const { pending: _, fixedSize: __, ...settled } = publication;
  const confirmed = seen.revision && { confirmedRevision: seen.revision };
  const done = {
    ...settled,
    state: "PUBLISHED",
    exportPath,
    attempts: 0,
    lastError: "",
    ...confirmed,
    ...(fixedSize && { fixedSize }),
  } as const;
  tx.disks.put({ ...disk, publication: done });
}

/**
 * Marks the disk unpublished once every device has granted the session without a holder. When the host has not
 * confirmed the end of its export, the export may continue without effect on the data; the agent must register again,
 * and gets the order to end it then.
 */
export function completeUnpublish(
  tx: RegistryTransaction,
  diskId: DiskId,
  seen: Publication,
  isHostTold: boolean,
): void {
  const disk = tx.disks.get(diskId);
  if (disk === undefined || !isCurrent(tx, diskId, seen)) return;
  const { publication: _, ...unpublished } = disk;
  tx.disks.put(withoutSessions(unpublished));
  if (!isHostTold) requireRegistration(tx, [seen.hostId]);
}

const MAX_ERROR_LENGTH = 2_048;

/** Maximum pending devices that are stored; the others are mostly in the same state. */
const MAX_PENDING = 16;

/** Records the error of the last try. Waiting callers and later reads get it. */
export function recordPublicationFailure(
  tx: RegistryTransaction,
  diskId: DiskId,
  seen: Publication,
  error: string,
  pending: readonly PendingDevice[] = [],
): void {
  const disk = tx.disks.get(diskId);
  if (disk?.publication === undefined || !isCurrent(tx, diskId, seen)) return;
  const { pending: _, ...publication } = disk.publication;
  const lastError = error.slice(0, MAX_ERROR_LENGTH);
  const waiting = pending.length > 0 && { pending: pending.slice(0, MAX_PENDING) };
  tx.disks.put({
    ...disk,
    publication: { ...publication, attempts: publication.attempts + 1, lastError, ...waiting },
  });
}
