import type { DeviceId, DiskId, HostId, RunRecord } from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { whyNotTold, whyNotToldToLetGo } from "../devices/orders.js";
import { whyElsewhere, whyUnknown } from "../devices/unknown-disks.js";
import type { Copy, CopyMark } from "../store/disk-parts.js";
import { copyAtSlice, countingCopy, countingDevices, offsetOf, partSizeBytes } from "../store/layout.js";
import { holds, type Run } from "../store/runs.js";
import {
  type Device,
  type Disk,
  type Host,
  isChangePending,
  type Publication,
  type RegistryTables,
} from "../store/schema.js";
import { type ByteRange, bytesOf } from "../store/slices.js";
import { recordOf } from "./run-records.js";

/** Devices of one host that are asked for a session. */
export interface SessionGroup {
  readonly host: Host;
  readonly devices: readonly Device[];
  /** Session of runs that were added to a published disk; absent for the publication's, of all runs. */
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
  /** Extents of the disk, in order. */
  readonly extents: readonly PlannedExtent[];
  /** Target that the disk's host is to mirror to. It may be asked or not, and blocks nothing. */
  readonly mirror: MirrorTarget | undefined;
  /** True once the host has written everything back and ended its export. */
  readonly isClean?: true;
}

/** Bytes of the disk on one device. */
export interface PlannedExtent {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  /** Start of these bytes on the device. */
  readonly offsetBytes: number;
  /** Bytes since the start of the run's first part, from which these were split; absent for 0. */
  readonly skipBytes?: number | undefined;
  readonly sizeBytes: number;
  /** Session of these bytes; absent for the publication's. */
  readonly sessionNumber?: number | undefined;
  /** Bytes that the target has alike; absent for 0. */
  readonly copiedBytes?: number | undefined;
  /** Device to mirror to. */
  readonly target?: Omit<PlannedExtent, "target"> | undefined;
}

/** Runs of a disk that a session covers: devices of which it has all bytes, and ranges of others. */
export interface CoveredRuns {
  readonly deviceIds: readonly DeviceId[];
  readonly runs: readonly (ByteRange & { readonly deviceId: DeviceId; readonly record?: RunRecord })[];
}

export const NO_RUNS: CoveredRuns = { deviceIds: [], runs: [] };

interface CoverOptions {
  /** Covers only runs that have this session of their own. */
  readonly ownSession?: number | undefined;
  /** Returns the record of a run on slices. */
  readonly recordOf?: ((device: Device, run: Run) => RunRecord) | undefined;
}

/** Returns the runs of the disk on the devices, as an order to open a session names them. */
export function coveredRuns(
  devices: readonly Device[],
  disk: Pick<Disk, "diskId" | "parts">,
  { ownSession, recordOf }: CoverOptions = {},
): CoveredRuns {
  const isMeant = ({ deviceId }: Device, { diskId, first }: Run): boolean =>
    diskId === disk.diskId &&
    (ownSession === undefined || copyAtSlice(disk, deviceId, first)?.sessionNumber === ownSession);
  const own = devices.flatMap((device) =>
    device.runs.filter((run) => isMeant(device, run)).map((run) => ({ device, run })),
  );
  const whole = own.filter(({ run }) => run.count === undefined);
  const ranges = own.filter(({ run }) => run.count !== undefined);
  return {
    deviceIds: whole.map(({ device }) => device.deviceId),
    runs: ranges.map(({ device, run }) => ({
      deviceId: device.deviceId,
      ...bytesOf(device, run),
      ...(recordOf && { record: recordOf(device, run) }),
    })),
  };
}

/**
 * Returns the runs of the disk on the devices for an order of the plan, with their records. An order that takes the disk from
 * its host says nothing in the records, because what the host had written is not known.
 */
export function recordedRuns(
  { disk, publication, isClean }: Pick<SessionPlan, "disk" | "publication" | "isClean">,
  devices: readonly Device[],
  ownSession?: number,
): CoveredRuns {
  const session = { layout: publication.revision ?? 0, clean: isClean === true };
  const isTold = isClean === true || publication.state !== "UNPUBLISHING";
  return coveredRuns(devices, disk, {
    ownSession,
    recordOf: isTold ? (device, run) => recordOf(disk, device, run, session) : undefined,
  });
}

/** Target of a move of a published disk. */
export interface MirrorTarget {
  /** Index of the part in the disk. */
  readonly index: number;
  readonly deviceId: DeviceId;
  /** Session of the target alone. */
  readonly sessionNumber: number;
  readonly mark: CopyMark | undefined;
  /** Host that is asked for the session; absent with `lost`. */
  readonly group: SessionGroup | undefined;
  /** Reason why the target cannot be asked; absent when it can. */
  readonly lost: string | undefined;
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
  const groups = new Map<HostId, { host: Host; devices: Device[] }>();
  const devices: Device[] = [];
  const unasked = new Map<DeviceId, string>();
  let lost = publication.state === "PUBLISHING" ? whyElsewhere(tables, diskId) : undefined;
  for (const deviceId of countingDevices(disk)) {
    const device = tables.devices.get(deviceId);
    const host = device === undefined ? undefined : tables.hosts.get(device.hostId);
    if (device === undefined || host === undefined || !holds(device, diskId)) {
      if (!fencing) lost ??= `device ${deviceId} was purged`;
      continue;
    }
    if (fencing && device.missing && whyNotToldToLetGo(host) === undefined) continue;
    devices.push(device);
    const whyNot = whyNotNow(device, host, fencing);
    if (whyNot !== undefined) {
      unasked.set(deviceId, whyNot);
      continue;
    }
    const group = groups.get(host.hostId) ?? { host, devices: [] };
    group.devices.push(device);
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
    blocked: lost ?? (named([...unasked.values()]) || undefined),
    extents: extentsOf(tables, disk),
    mirror: fencing ? undefined : mirrorTarget(tables, disk),
  };
}

function extentsOf(tables: RegistryTables, disk: Disk): readonly PlannedExtent[] {
  const hostOf = (deviceId: DeviceId): HostId => tables.devices.get(deviceId)?.hostId ?? ("" as HostId);
  return disk.parts.map((part): PlannedExtent => {
    const sizeBytes = partSizeBytes(tables, part);
    const extentOn = (copy: Copy) => {
      const { deviceId, sessionNumber, skipBytes, mark } = copy;
      return {
        deviceId,
        hostId: hostOf(deviceId),
        offsetBytes: offsetOf(tables, disk, copy),
        ...(skipBytes && { skipBytes }),
        sizeBytes,
        ...(sessionNumber && { sessionNumber }),
        ...(mark && { copiedBytes: mark.copiedBytes }),
      };
    };
    const target = part.copies.find(({ state, sessionNumber }) => state === "COPYING" && sessionNumber !== undefined);
    return { ...extentOn(countingCopy(part)), ...(target && { target: extentOn(target) }) };
  });
}

function mirrorTarget(tables: RegistryTables, disk: Disk): MirrorTarget | undefined {
  for (const [index, { copies }] of disk.parts.entries())
    for (const { state, deviceId, sessionNumber, mark } of copies) {
      if (state !== "COPYING" || sessionNumber === undefined) continue;
      const device = tables.devices.get(deviceId);
      const host = device && tables.hosts.get(device.hostId);
      const found = { index, deviceId, sessionNumber, mark };
      if (device === undefined || host === undefined || !holds(device, disk.diskId))
        return { ...found, group: undefined, lost: `device ${deviceId} was purged` };
      const lost = whyNotNow(device, host, false);
      return { ...found, lost, group: { host, devices: [device], sessionNumber } };
    }
  return undefined;
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
