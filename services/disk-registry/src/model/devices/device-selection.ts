import { type DeviceId, type HostId, InvalidArgumentError, NotFoundError, otherNames } from "@diskmesh/domain";
import type { Device, Host, RegistryTables } from "../store/schema.js";

/** Devices that a CMS action names: one by id, for which the host is optional, or all on a path of a host. */
export type DeviceSelector =
  | { readonly deviceId: DeviceId; readonly hostId?: HostId | undefined }
  | { readonly hostId: HostId; readonly path: string };

export function requireHost(tables: RegistryTables, hostId: HostId): Host {
  const host = tables.hosts.get(hostId);
  if (host !== undefined) return host;
  throw noHost(tables, hostId);
}

/** Returns the error about an unknown host, with the hosts that there are. */
export function noHost(tables: RegistryTables, hostId: HostId): NotFoundError {
  const names = Array.from(tables.hosts.entries(), (host) => host.hostId);
  const message = `there is no host ${hostId}: its agent has not registered; ${otherNames(hostId, names)}`;
  return new NotFoundError(message, { about: { host_id: hostId } });
}

/** Returns the error about an unknown device, with the devices that there are. */
export function noDevice(tables: RegistryTables, deviceId: DeviceId): NotFoundError {
  const names = Array.from(tables.devices.entries(), (device) => device.deviceId);
  const message = `there is no device ${deviceId}: no agent has reported it; ${otherNames(deviceId, names)}`;
  return new NotFoundError(message, { about: { device_id: deviceId } });
}

/** Returns at least one device. Throws when the host or the devices are unknown, or the device is another host's. */
export function requireDevices(tables: RegistryTables, selector: DeviceSelector): readonly Device[] {
  const { hostId } = selector;
  if (hostId !== undefined) requireHost(tables, hostId);
  const devices = namedDevices(tables, selector);
  if (devices.length === 0) throw noDevices(tables, selector);
  const foreign = devices.find((device) => hostId !== undefined && device.hostId !== hostId);
  if (foreign === undefined) return devices;
  const { deviceId } = foreign;
  throw new InvalidArgumentError(
    `device ${deviceId} belongs to host ${foreign.hostId}, not to ${hostId}: name host ${foreign.hostId}, or purge the device there first`,
    { about: { field: "host_id", device_id: deviceId } },
  );
}

/** Returns the named devices, of whichever host; empty when there are none. */
export function namedDevices(tables: RegistryTables, selector: DeviceSelector): readonly Device[] {
  if (!("deviceId" in selector))
    return devicesOfHost(tables, selector.hostId).filter((device) => device.path === selector.path);
  const device = tables.devices.get(selector.deviceId);
  return device === undefined ? [] : [device];
}

function noDevices(tables: RegistryTables, selector: DeviceSelector): NotFoundError {
  if ("deviceId" in selector) return noDevice(tables, selector.deviceId);
  const { hostId, path } = selector;
  const message = `host ${hostId} reported no device on path ${JSON.stringify(path)}`;
  return new NotFoundError(message, { about: { host_id: hostId, path } });
}

export function devicesOfHost(tables: RegistryTables, hostId: HostId): readonly Device[] {
  return [...tables.devices.by("byHost", hostId)];
}
