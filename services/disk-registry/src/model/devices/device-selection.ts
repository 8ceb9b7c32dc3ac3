import { type DeviceId, type HostId, NotFoundError } from "@diskmesh/domain";
import type { Device, Host, RegistryTables } from "../store/schema.js";
import { type ActionResult, actionResult } from "./action-result.js";

/** Devices that a CMS action names: one by id, for which the host is optional, or all on a path of a host. */
export type DeviceSelector =
  | { readonly deviceId: DeviceId; readonly hostId?: HostId | undefined }
  | { readonly hostId: HostId; readonly path: string };

/** Found things, or the result that says why there are none. */
export type Found<T> = { readonly found: T } | { readonly refused: ActionResult };

export function findHost(tables: RegistryTables, hostId: HostId): Found<Host> {
  const host = tables.hosts.get(hostId);
  if (host !== undefined) return { found: host };
  return { refused: actionResult("E_NOT_FOUND", `host ${hostId} never registered: start its agent first`) };
}

export function requireHost(tables: RegistryTables, hostId: HostId): Host {
  const host = tables.hosts.get(hostId);
  if (host === undefined) throw new NotFoundError(`there is no host ${hostId}`, { about: { host_id: hostId } });
  return host;
}

export function findDevices(tables: RegistryTables, selector: DeviceSelector): Found<readonly Device[]> {
  if (selector.hostId !== undefined) {
    const host = findHost(tables, selector.hostId);
    if ("refused" in host) return host;
  }
  return "deviceId" in selector ? findById(tables, selector) : findByPath(tables, selector);
}

/** Returns the named devices like findDevices, and an empty list instead of a refusal. */
export function namedDevices(tables: RegistryTables, selector: DeviceSelector): readonly Device[] {
  const devices = findDevices(tables, selector);
  return "found" in devices ? devices.found : [];
}

function findById(
  tables: RegistryTables,
  selector: { deviceId: DeviceId; hostId?: HostId | undefined },
): Found<readonly Device[]> {
  const { deviceId, hostId } = selector;
  const device = tables.devices.get(deviceId);
  if (device === undefined) {
    return { refused: actionResult("E_NOT_FOUND", `device ${deviceId} was never reported by an agent`) };
  }
  if (hostId !== undefined && device.hostId !== hostId) {
    const message = `device ${deviceId} belongs to host ${device.hostId}, not to ${hostId}: name that host, or purge the device there first`;
    return { refused: actionResult("E_ARGUMENT", message) };
  }
  return { found: [device] };
}

function findByPath(tables: RegistryTables, selector: { hostId: HostId; path: string }): Found<readonly Device[]> {
  const { hostId, path } = selector;
  const onPath = devicesOfHost(tables, hostId).filter((device) => device.path === path);
  if (onPath.length > 0) return { found: onPath };
  return { refused: actionResult("E_NOT_FOUND", `host ${hostId} reported no device on path ${JSON.stringify(path)}`) };
}

export function devicesOfHost(tables: RegistryTables, hostId: HostId): readonly Device[] {
  return [...tables.devices.by("byHost", hostId)];
}
