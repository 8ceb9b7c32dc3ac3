import {
  AlreadyExistsError,
  bytesText,
  countText,
  type DeviceId,
  type DiskId,
  InvalidArgumentError,
  InvalidStateError,
  type IoLimits,
  NotFoundError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { whyElsewhere, whyUnknown } from "../devices/unknown-disks.js";
import { allDevices, countingDevices, partsOn, takeSpace } from "../store/layout.js";
import { holds } from "../store/runs.js";
import {
  type Disk,
  type DiskRequest,
  type Health,
  isAway,
  type Label,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { MAX_RUNS_OF_DEVICE, type Space } from "../store/slices.js";
import { allocate } from "./allocation.js";
import { type AllocationLimits, totalBytes } from "./candidates.js";
import { isDeleted, stillKept } from "./deleted-disks.js";
import { withAddedBytes } from "./export-changes.js";
import { lengthenLast } from "./lengthening.js";
import { NOBODY_SUSPECTED } from "./placement.js";
import { type Needed, NoRoomError } from "./pressure.js";
import { requireDisk } from "./publications.js";
import { requireRepairRoom } from "./repair-room.js";
import type { Shortage } from "./shortage.js";

export interface DiskLimits {
  readonly maxDisks: number;
  readonly maxDevicesPerDisk: number;
  /** `retry_after` in ms for a disk that fits once devices are erased, or hosts are heard. */
  readonly erasingRetryAfterMs: number;
  /** Returns whether a pool keeps bytes free to empty any one host. Absent: no pool does. */
  readonly keepsRepairRoom?: ((pool: string) => boolean) | undefined;
}

/** Inputs of the device choice that are not in the tables. */
type Choice = Pick<AllocationLimits, "draw" | "whySuspected" | "mayYetBeHeard" | "nearHostId">;

/** Properties of a new disk that do not choose its devices. A repeated request may have others. */
export interface DiskProperties {
  readonly labels: readonly Label[];
  readonly limits?: IoLimits | undefined;
  readonly exportKind?: Disk["exportKind"];
  readonly onHostSilence?: Disk["onHostSilence"] | "KEEP";
}

/** Creates a disk on free devices, or returns the disk that the same request created before. */
export function createDisk(
  tx: RegistryTransaction,
  diskId: DiskId,
  request: DiskRequest,
  { labels, limits: ioLimits, exportKind, onHostSilence }: DiskProperties,
  limits: DiskLimits,
  { nowMs, ...choice }: Choice & { readonly nowMs: number },
): Disk {
  const existing = tx.disks.get(diskId);
  if (existing !== undefined && isDeleted(existing)) throw stillKept(existing);
  if (existing !== undefined) return requireSameRequest(existing, request);
  requirePlace(tx, request);
  if (tx.disks.size >= limits.maxDisks) {
    throw new NoRoomError(
      `disk ${diskId} exceeds the limit of ${limits.maxDisks} disks of a registry: delete disks first`,
    );
  }
  const az = request.az === "" ? (tx.hosts.get(request.hostId)?.az ?? "") : request.az;
  if (limits.keepsRepairRoom?.(request.pool))
    requireRepairRoom(tx, { ...request, az }, choice.whySuspected ?? NOBODY_SUSPECTED);
  const allocationLimits = { maxDevices: limits.maxDevicesPerDisk, ...choice };
  const allocation = allocate(tx, request, allocationLimits);
  if ("shortage" in allocation)
    throw noSpace(diskId, { request, limits: allocationLimits }, allocation.shortage, limits);
  const { spaces } = allocation;
  for (const space of spaces) takeSpace(tx, space, diskId);
  const disk: Disk = {
    diskId,
    requested: request,
    sizeBytes: totalBytes(spaces),
    blockSizeBytes: Math.max(...spaces.map((space) => space.blockSizeBytes)),
    az,
    parts: partsOn(spaces),
    labels,
    createdAtMs: nowMs,
    ...(ioLimits && { limits: ioLimits }),
    ...(exportKind && { exportKind }),
    ...(onHostSilence === "FENCE" && { onHostSilence }),
  };
  tx.disks.put(disk);
  return disk;
}

function requireSameRequest(existing: Disk, request: DiskRequest): Disk {
  const { requested, diskId } = existing;
  const differing = (Object.keys(request) as (keyof DiskRequest)[]).filter(
    (field) => requested[field] !== request[field],
  );
  if (differing.length === 0) return existing;
  const was = differing.map(
    (field) => `${field} ${JSON.stringify(requested[field])}, not ${JSON.stringify(request[field])}`,
  );
  throw new AlreadyExistsError(
    `disk ${diskId} already exists with other properties (${was.join("; ")}): choose another id, or request the same properties`,
    {
      about: { disk_id: diskId },
    },
  );
}

function requirePlace(tables: RegistryTables, request: DiskRequest): void {
  if (request.hostId === "") return;
  const host = tables.hosts.get(request.hostId);
  if (host === undefined)
    throw new NotFoundError(`there is no host ${request.hostId}`, { about: { host_id: request.hostId } });
  if (request.az !== "" && host.az !== request.az) {
    throw new InvalidStateError(`host ${request.hostId} is in az ${host.az}, not in ${request.az}`, {
      about: { host_id: request.hostId },
    });
  }
}

function noSpace(diskId: DiskId, needed: Needed, shortage: Shortage, limits: DiskLimits, grown?: Disk): Error {
  const { request } = needed;
  const where = request.hostId === "" ? `az ${request.az}` : `host ${request.hostId}`;
  // A repeated creation has another ID. Orchestrators merge its failures when their messages are equal.
  const disk = grown === undefined ? "a disk" : `disk ${diskId}`;
  const wanted = `${disk} of ${bytesText(request.sizeBytes)} does not fit into pool ${request.pool} of ${where}`;
  const {
    erasingDevices,
    comingDevices,
    sufficesSoon,
    awaitedHostIds,
    blocked,
    largestRunBytes,
    crowdedDevices = 0,
  } = shortage;
  const erasing = erasingDevices > 0 && `${countText(erasingDevices, "device is", "devices are")} being erased`;
  const coming =
    comingDevices > 0 &&
    `${countText(comingDevices, "device is", "devices are")} being attached, or free on a host that misses heartbeats`;
  const heldByUnknown =
    blocked.heldByUnknownDisk > 0 &&
    `${countText(blocked.heldByUnknownDisk, "device is", "devices are")} held by an unknown disk until somebody decides about them`;
  const saidUnwell =
    blocked.saidUnwell > 0 &&
    `${countText(blocked.saidUnwell, "device is", "devices are")} kept from use by an operator's SetDeviceState`;
  const awaited =
    awaitedHostIds.length > 0 &&
    `${countText(awaitedHostIds.length, "host has", "hosts have")} not registered yet with this registry, and may have room: ${named(awaitedHostIds)}`;
  const isPassing = sufficesSoon || awaitedHostIds.length > 0;
  const advice = isPassing ? "try again when they can be used" : "add devices or delete disks";
  const { maxDevicesPerDisk: max } = limits;
  const free = `${bytesText(shortage.usableBytes)} are free on the ${countText(max, "device", "devices")} with the most room, which a disk may have`;
  const blocks = grown === undefined ? "" : ` with blocks of at most ${bytesText(grown.blockSizeBytes)}`;
  const largest = largestRunBytes !== undefined && `the largest free run has room for ${bytesText(largestRunBytes)}`;
  const crowded =
    crowdedDevices > 0 &&
    `${countText(crowdedDevices, "device has", "devices have")} free slices and ${MAX_RUNS_OF_DEVICE} runs, the most of a device`;
  const found = `${wanted}: ${free}${blocks}`;
  const said = [found, largest, crowded, erasing, coming, awaited, heldByUnknown, saidUnwell, advice];
  const message = said.filter(Boolean).join("; ");
  const about = { disk_id: diskId, pool: request.pool };
  if (awaitedHostIds.length > 0)
    return new UnavailableError(message, { about, retryAfterMs: limits.erasingRetryAfterMs });
  const doesNotFit = { reason: "NO_DEVICES_FIT", about } as const;
  if (!sufficesSoon) return new NoRoomError(message, { ...doesNotFit, needed });
  return new ResourceExhaustedError(message, { ...doesNotFit, retryAfterMs: limits.erasingRetryAfterMs });
}

/**
 * Appends free devices to a disk until it has the requested size. The original request stays recorded, so that a
 * repeated creation after a lost answer still finds the disk. The host of a published disk gets the size later. Throws
 * InvalidStateError when that host can serve it only after another publication.
 */
export function resizeDisk(
  tx: RegistryTransaction,
  diskId: DiskId,
  sizeBytes: number,
  limits: DiskLimits,
  choice: Choice,
): Disk {
  const disk = requireDisk(tx, diskId);
  const { requested, publication } = disk;
  const about = { disk_id: diskId };
  if (sizeBytes < requested.sizeBytes)
    throw new InvalidArgumentError(
      `disk ${diskId} has ${bytesText(requested.sizeBytes)} and cannot shrink to ${bytesText(sizeBytes)}`,
      { about },
    );
  if (sizeBytes <= disk.sizeBytes) return disk;
  if (publication?.fixedSize)
    throw new InvalidStateError(
      `disk ${diskId} is published to host ${publication.hostId}, which cannot enlarge it while it serves it as a block device: unpublish the disk, enlarge it, and publish it again`,
      { reason: "DISK_IN_USE", about: { ...about, host_id: publication.hostId } },
    );
  const whySuspected = choice.whySuspected ?? NOBODY_SUSPECTED;
  const addedBytes = sizeBytes - disk.sizeBytes;
  if (limits.keepsRepairRoom?.(requested.pool))
    requireRepairRoom(tx, { az: disk.az, pool: requested.pool, sizeBytes: addedBytes }, whySuspected);
  const longer = lengthenLast(tx, disk, addedBytes, whySuspected);
  const spaces = addedSpaces(tx, longer, sizeBytes, limits, choice);
  for (const space of spaces) takeSpace(tx, space, diskId);
  const parts = [...longer.parts, ...partsOn(spaces)];
  const larger = { ...longer, sizeBytes: longer.sizeBytes + totalBytes(spaces), parts };
  const changed = parts.filter((part) => !disk.parts.includes(part));
  const resized = withAddedBytes(tx, disk, larger, changed);
  tx.disks.put(resized);
  return resized;
}

/** Returns the free space that the disk takes beside what it has. */
function addedSpaces(
  tables: RegistryTables,
  disk: Disk,
  sizeBytes: number,
  limits: DiskLimits,
  choice: Choice,
): readonly Space[] {
  const { diskId, parts, publication, requested } = disk;
  if (sizeBytes <= disk.sizeBytes) return [];
  const missing = { ...requested, sizeBytes: sizeBytes - disk.sizeBytes };
  // Copies that count on one device have one session, so a device with another copy of the disk is not chosen.
  const others = parts.flatMap(({ copies }) => copies.filter(({ state }) => state !== "COUNTS"));
  const isTaken = (id: DeviceId): boolean => !holds(tables.devices.get(id), diskId);
  const allocationLimits: AllocationLimits = {
    maxDevices: limits.maxDevicesPerDisk - parts.length,
    // The data on the disk was written in blocks of this size, so added devices must not have larger ones.
    maxBlockSizeBytes: disk.blockSizeBytes,
    named: new Set([...allDevices(disk).filter(isTaken), ...others.map(({ deviceId }) => deviceId)]),
    ...choice,
    nearHostId: publication?.hostId ?? "",
  };
  const allocation = allocate(tables, missing, allocationLimits);
  if ("shortage" in allocation)
    throw noSpace(diskId, { request: missing, limits: allocationLimits }, allocation.shortage, limits, disk);
  return allocation.spaces;
}

export function setDiskLabels(tx: RegistryTransaction, diskId: DiskId, labels: readonly Label[]): Disk {
  const disk = { ...requireDisk(tx, diskId), labels };
  tx.disks.put(disk);
  return disk;
}

export interface DiskHealth {
  readonly health: Health;
  readonly message: string;
}

/** Returns the worst health of the devices with the disk's bytes and of their hosts: a device at fault makes the disk faulty. */
export function diskHealth(tables: RegistryTables, disk: Disk): DiskHealth {
  const elsewhere = whyElsewhere(tables, disk.diskId);
  if (elsewhere !== undefined) return { health: "ERROR", message: elsewhere };
  let worst: DiskHealth = { health: "ONLINE", message: "" };
  for (const deviceId of countingDevices(disk)) {
    const found = deviceHealth(tables, disk, deviceId);
    if (found.health === "ERROR") return found;
    if (found.health === "WARNING" && worst.health === "ONLINE") worst = found;
  }
  return worst;
}

/** Returns the health of one of the disk's devices and of that device's host. */
export function deviceHealth(tables: RegistryTables, disk: Disk, deviceId: DeviceId): DiskHealth {
  const device = tables.devices.get(deviceId);
  if (device === undefined || !holds(device, disk.diskId))
    return { health: "ERROR", message: `device ${deviceId} was purged` };
  const name = `device ${deviceId} on host ${device.hostId}`;
  if (device.health === "ERROR") return { health: "ERROR", message: `${name}: ${device.healthMessage}` };
  const unknown = whyUnknown(device);
  if (unknown !== undefined) return { health: "ERROR", message: unknown };
  const host = tables.hosts.get(device.hostId);
  if (host === undefined || isAway(host))
    return { health: "ERROR", message: `${name}: its host is ${host?.state ?? "gone"}` };
  if (device.attachState !== "ATTACHED") return { health: "ERROR", message: `${name} is ${device.attachState}` };
  if (device.health === "WARNING") return { health: "WARNING", message: `${name}: ${device.healthMessage}` };
  if (host.state === "WARNING") return { health: "WARNING", message: `${name}: ${host.stateMessage}` };
  return { health: "ONLINE", message: "" };
}
