import type { DiskId, HostId } from "@diskmesh/domain";
import { advance } from "../devices/attach-states.js";
import { devicesOfHost } from "../devices/device-selection.js";
import { mustBeErased } from "../devices/removal-erase.js";
import { disksOn, withEraseSession } from "../store/runs.js";
import {
  type Device,
  type Host,
  isAway,
  isHeld,
  isLeftAlone,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { giveUpOnHost, type RegistryTime, removalTimedOut } from "./removal-timeout.js";

/** Devices that leave operation together. All are of one host. */
export interface Removal {
  readonly host: Host | undefined;
  readonly devices: readonly Device[];
  /** True when the whole host leaves, which then must serve no disk and be no VM. */
  readonly isOfHost: boolean;
}

/** Uses that hold a removal back. */
export interface RemovalUses {
  /** Disks on the devices. */
  readonly heldDiskIds: readonly DiskId[];
  /** Disks that the host serves, or may still serve. */
  readonly servedDiskIds: readonly DiskId[];
  /** The VM that runs on the host. */
  readonly vmCid: string | undefined;
  /** Devices held by an unknown disk, on which an operator must decide. */
  readonly unknown: readonly Device[];
}

/** The next step of a removal. */
export type RemovalStep =
  /** Waits until the uses have ended. */
  | { readonly kind: "in_use"; readonly uses: RemovalUses }
  /** Waits until the devices are erased. */
  | { readonly kind: "erasing"; readonly devices: readonly Device[] }
  /** Waits for an UNAVAILABLE host, until the removal timeout. */
  | { readonly kind: "away"; readonly host: Host; readonly missing: "erase or confirm" | "confirm" }
  /** Waits for nothing: the devices can be closed, or no longer wait for their host's confirmation. */
  | { readonly kind: "close"; readonly devices: readonly Device[] }
  /** Waits until the agent has confirmed that it has closed the devices. */
  | { readonly kind: "closing"; readonly devices: readonly Device[] }
  | { readonly kind: "out" };

/** Inputs of a removal's step that are not in the tables. */
export interface RemovalTime extends RegistryTime {
  readonly limits: { readonly unavailableRemovalTimeoutMs: number };
}

/** Returns the next step of the removal, which depends on nothing that only a caller knows. Changes nothing. */
function nextStep(tables: RegistryTables, removal: Removal, { limits, listenedMs }: RemovalTime): RemovalStep {
  const { host, devices } = removal;
  const uses = usesOf(tables, removal);
  if (uses !== undefined) return { kind: "in_use", uses };
  const isLost = host !== undefined && removalTimedOut(host, limits, listenedMs);
  const away = host !== undefined && isAway(host) && !isLost ? host : undefined;
  const toErase = devices.filter(mustBeErased);
  if (toErase.length > 0 && !isLost)
    return away === undefined
      ? { kind: "erasing", devices: toErase }
      : { kind: "away", host: away, missing: "erase or confirm" };
  const toClose = devices.filter((device) => isHeld(device) || (isLost && device.attachState === "CLOSING"));
  if (toClose.length > 0) return { kind: "close", devices: toClose };
  const closing = devices.filter((device) => isBeingClosed(device, isLost));
  if (closing.length === 0) return { kind: "out" };
  return away === undefined ? { kind: "closing", devices: closing } : { kind: "away", host: away, missing: "confirm" };
}

/** Closes the devices of the removal if it waits for nothing. Returns the step after that. */
export function takeStep(tx: RegistryTransaction, before: Removal, time: RemovalTime): RemovalStep {
  const removal = reread(tx, before);
  const step = nextStep(tx, removal, time);
  if (step.kind !== "close") return step;
  for (const device of step.devices) close(tx, device, time.nowMs);
  if (removal.host !== undefined) giveUpOnHost(tx, removal.host.hostId, time.limits, time);
  return nextStep(tx, reread(tx, removal), time);
}

/** Takes the next step of each removal on the host. Returns the number of devices that were closed. */
export function takeSteps(tx: RegistryTransaction, hostId: HostId, time: RemovalTime): number {
  const before = tx.devices.count("leavingByHost", hostId);
  for (const removal of removalsOn(tx, hostId)) takeStep(tx, removal, time);
  return before - tx.devices.count("leavingByHost", hostId);
}

/** Returns whether `takeSteps` would change anything. */
export function isStepDue(tables: RegistryTables, hostId: HostId, time: RemovalTime): boolean {
  return removalsOn(tables, hostId).some((removal) => nextStep(tables, removal, time).kind === "close");
}

/** Returns the removals on the host that have devices to close. */
function removalsOn(tables: RegistryTables, hostId: HostId): readonly Removal[] {
  const removals = new Map<string, Removal>();
  for (const device of tables.devices.by("leavingByHost", hostId)) {
    const key = keyOf(tables, device);
    if (!removals.has(key)) removals.set(key, removalOf(tables, device));
  }
  return [...removals.values()];
}

function keyOf(tables: RegistryTables, { hostId, leavesAs, path, deviceId }: Device): string {
  if (leavesAs === "PATH") return `path ${path}`;
  return leavesAs === undefined && tables.hosts.get(hostId)?.removalRequested ? "host" : `device ${deviceId}`;
}

/** Returns the removal that takes a device out that is to be removed. */
export function removalOf(tables: RegistryTables, device: Device): Removal {
  const { hostId, leavesAs, path } = device;
  const host = tables.hosts.get(hostId);
  if (leavesAs === "PATH") {
    const devices = devicesOfHost(tables, hostId).filter(
      (each) => each.path === path && (each.leavesAs === "PATH" || !isHeld(each)),
    );
    return { host, devices, isOfHost: false };
  }
  if (host?.removalRequested && leavesAs === undefined)
    return { host, devices: devicesOfHost(tables, hostId), isOfHost: true };
  return { host, devices: [device], isOfHost: false };
}

/** Returns the uses that hold the removal back; undefined for none. */
export function usesOf(tables: RegistryTables, { host, devices, isOfHost }: Removal): RemovalUses | undefined {
  const heldDiskIds = disksOn(devices);
  const servedDiskIds = isOfHost && host !== undefined ? disksServedBy(tables, host.hostId) : [];
  const vmCid = isOfHost ? host?.assignment?.vmCid : undefined;
  const unknown = devices.filter(isLeftAlone);
  const isUsed = heldDiskIds.length + servedDiskIds.length + unknown.length > 0 || vmCid !== undefined;
  return isUsed ? { heldDiskIds, servedDiskIds, vmCid, unknown } : undefined;
}

/** Returns disks that are published to the host, being published to it, or not yet fenced off from it. */
export function disksServedBy(tables: RegistryTables, hostId: HostId): readonly DiskId[] {
  return [...tables.disks.by("byPublicationHost", hostId)].map((disk) => disk.diskId).sort();
}

/** Returns the removal with its devices as they are now. */
export function reread(tables: RegistryTables, removal: Removal): Removal {
  return { ...removal, devices: removal.devices.map((device) => tables.devices.get(device.deviceId) ?? device) };
}

function close(tx: RegistryTransaction, device: Device, nowMs: number): void {
  const closed = advance(tx, device, "remove", nowMs);
  // Clears the erase's session: a late answer would be about an erase from before the device left, and others may have
  // written to the device since.
  if (closed !== device) tx.devices.put(withEraseSession(closed, 0));
}

/**
 * Returns whether the agent must still confirm the close. That includes an UNKNOWN device: an agent opens a device that
 * it finds before the registry has answered that it is not in operation.
 */
function isBeingClosed({ attachState, detachConfirmed }: Device, isLost: boolean): boolean {
  return attachState === "CLOSING" || (attachState === "UNKNOWN" && !detachConfirmed && !isLost);
}
