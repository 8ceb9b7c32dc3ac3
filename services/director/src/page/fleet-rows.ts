import { AttachState, type Device, type Disk, Health, type Host, PublicationState } from "@diskmesh/api/registry";
import type { DeviceLetter, DeviceRow, DiskRow, HostRow } from "@diskmesh/page/rows";

/** Tries of an order after which it is no matter of moments. */
const MANY_ATTEMPTS = 3;

/** `isInUse`: it holds devices or serves disks. */
export function hostRow(host: Host, devices: string, isInUse: boolean): HostRow {
  const { state, az, rack, assignment, stateChangedAt, lastHeartbeatAt, removalRequested } = host;
  const told = lower("HOST_STATE_", state) as HostRow["state"];
  const isSuspected = host.suspected && told !== "unavailable" && told !== "dead";
  const shown = isSuspected ? "suspected" : told;
  const isLeft = !isInUse && assignment === undefined;
  const removal = !removalRequested ? "" : isLeft ? "done" : "wanted";
  return {
    state: shown,
    removal,
    az,
    rack,
    vm: assignment?.vmCid ?? "",
    devices,
    ...about(troubleOfHost(host, shown, removal), isSuspected ? lastHeartbeatAt : stateChangedAt),
  };
}

function troubleOfHost(host: Host, state: HostRow["state"], removal: HostRow["removal"]): string {
  // Nobody waits for it any more.
  if (removal === "done") return "";
  if (state === "dead") return `said dead by ${host.saidDead?.by ?? "an operator"}: ${host.saidDead?.reason ?? ""}`;
  if (removal === "wanted") return "to be removed, and not out of operation yet";
  if (state === "suspected") return "its heartbeats are missing";
  return state === "online" ? "" : host.stateMessage || `its agent is ${state}`;
}

const LETTERS: Readonly<Record<string, DeviceLetter>> = {
  [AttachState.ATTACHED]: "a",
  [AttachState.ATTACHING]: "g",
  [AttachState.CLOSING]: "c",
  [AttachState.DETACHED]: "d",
};

export function letterOf({ attachState, health }: Device): DeviceLetter {
  if (health === Health.ERROR) return "x";
  if (health === Health.WARNING) return "w";
  return LETTERS[attachState] ?? "u";
}

/** Whether its host holds it, or may. */
export function isHeld({ attachState, detachConfirmed }: Device): boolean {
  return attachState !== AttachState.UNKNOWN && !(attachState === AttachState.DETACHED && detachConfirmed);
}

/** Undefined for a device that nobody needs to look at. */
export function deviceRow(device: Device): DeviceRow | undefined {
  const trouble = troubleOfDevice(device);
  if (trouble === "") return undefined;
  const { hostId, attachState, diskId, stateChangedAt } = device;
  const state = lower("ATTACH_STATE_", attachState);
  return { host: hostId, state, disk: diskId, ...about(trouble, stateChangedAt) };
}

export function troubleOfDevice(device: Device): string {
  const { health, healthMessage, hardwareError, pending, attempts, lastError } = device;
  if (device.heldByUnknownDisk) return "holds a disk that this registry does not know";
  if (health === Health.ERROR || health === Health.WARNING)
    return healthMessage || hardwareError?.message || lower("HEALTH_", health);
  if (pending !== undefined) return `its agent waits: ${pending.message}`;
  if (lastError !== "" && attempts >= MANY_ATTEMPTS) return lastError;
  if (device.attachState === AttachState.DETACHED && !device.detachConfirmed)
    return "detached without its agent's word: the host may still hold it";
  return device.removalRequested && device.diskId !== "" ? `to be removed, and disk ${device.diskId} is on it` : "";
}

const PUBLICATIONS: Readonly<Record<string, DiskRow["state"]>> = {
  [PublicationState.PUBLISHING]: "publishing",
  [PublicationState.PUBLISHED]: "published",
  [PublicationState.UNPUBLISHING]: "unpublishing",
};

export function diskRow(disk: Disk): DiskRow {
  const { publication, az, pool, sizeBytes, health, createdAt } = disk;
  return {
    state: PUBLICATIONS[publication?.state ?? ""] ?? "free",
    host: publication?.hostId ?? "",
    az,
    pool,
    sizeBytes,
    health: lower("HEALTH_", health),
    ...about(troubleOfDisk(disk), createdAt),
  };
}

function troubleOfDisk({ publication, health, healthMessage, fence }: Disk): string {
  if (publication !== undefined && fence !== undefined)
    return `is being fenced from ${fence.hostId}: ${publication.lastError || fence.reason}`;
  const [waits] = publication?.pending ?? [];
  if (waits !== undefined) return `device ${waits.deviceId} waits: ${waits.message}`;
  if (publication !== undefined && publication.lastError !== "" && publication.attempts > 0)
    return publication.lastError;
  if (health === Health.ERROR) return healthMessage || "a device or host of it is in error";
  return fence === undefined ? "" : `was fenced from ${fence.hostId}${fence.reason && `: ${fence.reason}`}`;
}

/** Those fields that there is something to say in. */
export function about(
  trouble: string,
  since: Date | undefined,
): { readonly trouble?: string; readonly sinceMs?: number } {
  return { ...(trouble !== "" && { trouble }), ...(since !== undefined && { sinceMs: since.getTime() }) };
}

/** As people read the name of a value. */
export function lower(prefix: string, name: string): string {
  return name.replace(prefix, "").toLowerCase();
}
