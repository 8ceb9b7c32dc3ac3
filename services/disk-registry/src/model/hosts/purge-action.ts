import { countText, type DiskId, type HostId, InvalidStateError } from "@diskmesh/domain";
import { type ActionResult, actionResult, named } from "../devices/action-result.js";
import { advance } from "../devices/attach-states.js";
import { reportedHealth, withoutKeptHealth } from "../devices/device-health.js";
import { type DeviceSelector, devicesOfHost, requireDevices, requireHost } from "../devices/device-selection.js";
import { forgetDevice } from "../devices/foreign-devices.js";
import { unerasedIn, unerasedNote } from "../devices/removal-erase.js";
import { namedDisk } from "../disks/disk-text.js";
import { beginUnpublish } from "../disks/publications.js";
import { requireRegistration } from "../disks/remembered.js";
import { identityOf } from "../identity/hardware.js";
import { allDirty, disksOn } from "../store/runs.js";
import { type Device, isAway, type RegistryTables, type RegistryTransaction } from "../store/schema.js";
import { disksServedBy } from "./removal-step.js";

/**
 * Deletes a host, its devices and its VM assignment. Refuses a host that is a VM, because its director still relies on
 * it. A running agent gets NOT_FOUND at its next heartbeat, registers again and closes all devices: all of them are
 * UNKNOWN then, with new generations.
 */
export function purgeHost(tx: RegistryTransaction, hostId: HostId, force: boolean): ActionResult {
  const host = requireHost(tx, hostId);
  const { assignment } = host;
  if (assignment !== undefined && !force) {
    const message = `host ${hostId} is VM ${assignment.vmCid}: delete the VM with its director first, or purge the host with force and run cloud-check on the VM's deployment`;
    throw new InvalidStateError(message, { about: { host_id: hostId } });
  }
  const devices = devicesOfHost(tx, hostId);
  const held = disksOn(devices);
  const published = [...tx.disks.by("byPublicationHost", hostId)];
  const inTheWay = new Set<DiskId>([...held, ...disksServedBy(tx, hostId)]);
  if (inTheWay.size > 0 && !force) throw stillInUse(tx, `host ${hostId}`, [...inTheWay].sort(), { host_id: hostId });
  for (const disk of published) beginUnpublish(tx, disk);
  for (const device of devices) forgetDevice(tx, device);
  tx.hosts.delete(hostId);
  const vm = assignment === undefined ? "" : ` and VM ${assignment.vmCid}; run cloud-check at its director`;
  const back = isAway(host) ? "" : "; while its agent runs, it registers the host again, with no device added";
  const text = `host ${hostId} is forgotten with its ${countText(devices.length, "device")}${vm}${back}`;
  return forgotten(tx, text, devices, held);
}

/**
 * Deletes one device, or all devices on a path. Devices that an agent still reports become UNKNOWN and are ordered
 * detached. The devices of a silent host are deleted at once, and become UNKNOWN when the host registers again.
 */
export function purgeDevice(
  tx: RegistryTransaction,
  selector: DeviceSelector,
  force: boolean,
  nowMs: number,
): ActionResult {
  const devices = requireDevices(tx, selector);
  const names = named(devices.map((device) => device.deviceId));
  const held = disksOn(devices);
  if (held.length > 0 && !force)
    throw stillInUse(tx, `device ${names}`, held, { device_id: devices[0]?.deviceId ?? "" });
  for (const device of devices) forget(tx, device, nowMs);
  return forgotten(tx, `forgotten: ${names}`, devices, held);
}

function forget(tx: RegistryTransaction, device: Device, nowMs: number): void {
  const host = tx.hosts.get(device.hostId);
  if (host !== undefined && isAway(host)) {
    forgetDevice(tx, device);
    // Demands a new registration, because the agent may be alive and hold the device, and its registration reports
    // that.
    requireRegistration(tx, [host.hostId]);
    return;
  }
  const {
    replacement,
    keepData: _,
    removalRequestedAtMs: __,
    leavesAs: ___,
    unknownSession,
    label,
    ...rest
  } = advance(tx, device, "purge", nowMs);
  // Counts as issued the sessions of the device's disk, and also an unknown session, because the purging operator has
  // seen it.
  const ofDisks = disksOn([device]).map((diskId) => tx.disks.get(diskId)?.lastSessionNumber);
  const given = [rest.lastSessionNumber, unknownSession?.sessionNumber, ...ofDisks];
  const lastSessionNumber = Math.max(...given.map((number) => number ?? 0));
  const last = given.some((number) => number !== undefined) && { lastSessionNumber };
  const hardware = replacement === undefined ? { label } : identityOf(replacement);
  const purged = allDirty({ ...rest, ...hardware, ...last, removalRequested: false, ...reportedHealth(device) });
  tx.devices.put(withoutKeptHealth(purged));
}

function forgotten(
  tables: RegistryTables,
  text: string,
  devices: readonly Device[],
  held: readonly DiskId[],
): ActionResult {
  const unerasedDeviceIds = unerasedIn(devices);
  const result = actionResult("S_OK", `${text}${brokenNote(tables, held)}${unerasedNote(unerasedDeviceIds)}`, held);
  return { ...result, unerasedDeviceIds };
}

function stillInUse(
  tables: RegistryTables,
  name: string,
  held: readonly DiskId[],
  about: Record<string, string>,
): InvalidStateError {
  const disks = named(held.map((diskId) => namedDisk(tables, diskId)));
  const message = `${name} holds or serves ${countText(held.length, "disk")}: delete or detach them first, or purge with force: ${disks}`;
  return new InvalidStateError(message, { about });
}

function brokenNote(tables: RegistryTables, held: readonly DiskId[]): string {
  const disks = held.map((diskId) => namedDisk(tables, diskId)).join(", ");
  return held.length === 0 ? "" : `; these disks have lost devices: ${disks}`;
}

/**
 * Returns disks whose fence may complete once the host is purged: disks that the host serves, and disks with devices on
 * it.
 */
export function disksAffectedByPurge(tables: RegistryTables, hostId: HostId): readonly DiskId[] {
  return [...new Set([...disksServedBy(tables, hostId), ...disksOn(devicesOfHost(tables, hostId))])];
}
