import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { whyNotTold, whyNotToldToLetGo } from "../devices/orders.js";
import { whyUnknown } from "../devices/unknown-disks.js";
import {
  type Device,
  type Disk,
  type Host,
  isChangePending,
  type Publication,
  type RegistryTables,
} from "../store/schema.js";
import { countingDevices } from "./layout.js";

/** Devices of one host that are asked for a session. */
export interface SessionGroup {
  readonly host: Host;
  readonly deviceIds: readonly DeviceId[];
  /** Session of devices that were added to a published disk; absent for the publication's. */
  readonly sessionNumber?: number;
}

export interface SessionPlan {
  readonly disk: Disk;
  readonly publication: Publication;
  /** Host whose I/O the session allows; empty when the session fences off every host. */
  readonly holderHostId: HostId | "";
  /** Host that serves, is to serve, or served the disk. */
  readonly target: Host | undefined;
  readonly groups: readonly SessionGroup[];
  /**
   * Devices of the disk in order. A fence omits purged devices, because they hold none of the disk's data. It also
   * omits devices that a registered agent no longer reports, because no agent holds them.
   */
  readonly devices: readonly Device[];
  /** Devices that cannot be asked now, e.g. on an UNAVAILABLE host, with the reasons. All other devices are asked. */
  readonly unasked: ReadonlyMap<DeviceId, string>;
  /** Reason why the session cannot be granted by all devices now. */
  readonly blocked: string | undefined;
}

/**
 * Returns which devices to ask for the disk's current session; undefined when there is nothing to do. The plan of a
 * PUBLISHED disk is for a change that its host has not confirmed. Sends nothing.
 */
export function planSession(tables: RegistryTables, diskId: DiskId): SessionPlan | undefined {
  const disk = tables.disks.get(diskId);
  const publication = disk?.publication;
  if (disk === undefined || publication === undefined) return undefined;
  if (publication.state === "PUBLISHED" && !isChangePending(publication)) return undefined;
  const fencing = publication.state === "UNPUBLISHING";
  const groups = new Map<HostId, { host: Host; deviceIds: DeviceId[] }>();
  const devices: Device[] = [];
  const unasked = new Map<DeviceId, string>();
  let purged: string | undefined;
  for (const deviceId of countingDevices(disk)) {
    const device = tables.devices.get(deviceId);
    const host = device === undefined ? undefined : tables.hosts.get(device.hostId);
    if (device === undefined || host === undefined || device.diskId !== diskId) {
      if (!fencing) purged ??= `device ${deviceId} was purged`;
      continue;
    }
    if (fencing && device.missing && whyNotToldToLetGo(host) === undefined) continue;
    devices.push(device);
    const whyNot = whyNotNow(device, host, fencing);
    if (whyNot !== undefined) {
      unasked.set(deviceId, whyNot);
      continue;
    }
    const group = groups.get(host.hostId) ?? { host, deviceIds: [] };
    group.deviceIds.push(deviceId);
    groups.set(host.hostId, group);
  }
  return {
    disk,
    publication,
    holderHostId: fencing ? "" : publication.hostId,
    target: tables.hosts.get(publication.hostId),
    groups: [...groups.values()],
    devices,
    unasked,
    blocked: purged ?? (named([...unasked.values()]) || undefined),
  };
}

function whyNotNow(device: Device, host: Host, fencing: boolean): string | undefined {
  const whyNot = fencing ? whyNotToldToLetGo(host) : whyNotTold(host);
  if (whyNot !== undefined) {
    const cure = fencing ? "; if the host is gone for good, PurgeHost or PurgeDevice with force ends the wait" : "";
    return `device ${device.deviceId} on host ${host.hostId} cannot be asked for the session: ${whyNot}${cure}`;
  }
  const unknown = whyUnknown(device);
  if (unknown !== undefined) return unknown;
  // A fence asks devices in any state, because their agents may still do I/O for an older session.
  if (fencing || device.attachState === "ATTACHED") return undefined;
  return `device ${device.deviceId} on host ${host.hostId} is ${device.attachState}${device.lastError === "" ? "" : `: ${device.lastError}`}`;
}
