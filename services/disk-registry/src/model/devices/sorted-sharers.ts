import type { DeviceId, HostId } from "@diskmesh/domain";
import type { Device, RegistryTables } from "../store/schema.js";
import {
  compareClaims,
  type FindSharers,
  ofOneSerialNumber,
  onOneFile,
  overlap,
  type SharedSerialNumbers,
  type Sharer,
  tellsDrivesApart,
} from "./same-bytes.js";

/**
 * Finds the sharers of many devices in one transaction or read. Sorts the devices of a file once, because a file may
 * hold thousands. Returns one sharer of each other host, the device with the best claim: a device that yields to any of
 * that host's devices also yields to this one.
 */
export class SortedSharers {
  readonly #files = new Map<string, OnOneDrive>();
  readonly #drives = new Map<string, OnOneDrive>();

  constructor(
    private readonly tables: RegistryTables,
    private readonly shared: SharedSerialNumbers,
  ) {}

  /** Updates the index after a transaction stored the device. */
  note(device: Device): void {
    this.#files.get(device.fileIdentity ?? "")?.add(device);
    this.#drives.get(device.serialNumber)?.add(device);
  }

  readonly find: FindSharers = (device) => this.#find(device);

  *#find(device: Device): Generator<Sharer> {
    const { hostId, fileIdentity, serialNumber } = device;
    if (fileIdentity) {
      const file = this.#group(this.#files, "byFileIdentity", fileIdentity);
      const isThere = (other: Device): boolean => other.fileIdentity === fileIdentity;
      const why = onOneFile(fileIdentity);
      for (const other of file.overlapping(device, isThere)) yield { other, why };
      for (const other of file.bestOfOthers(hostId, isThere)) yield { other, why };
    }
    if (!tellsDrivesApart(serialNumber, this.shared)) return;
    const drive = this.#group(this.#drives, "bySerialNumber", serialNumber);
    const isThere = (other: Device): boolean => other.serialNumber === serialNumber;
    for (const other of drive.bestOfOthers(hostId, isThere)) yield { other, why: ofOneSerialNumber(serialNumber) };
  }

  #group(groups: Map<string, OnOneDrive>, index: "byFileIdentity" | "bySerialNumber", value: string): OnOneDrive {
    let group = groups.get(value);
    if (group === undefined) {
      group = new OnOneDrive(this.tables);
      for (const device of this.tables.devices.by(index, value)) group.add(device);
      groups.set(value, group);
    }
    return group;
  }
}

type IsThere = (device: Device) => boolean;

interface OfHost {
  readonly deviceIds: Set<DeviceId>;
  readonly ranges: Ranges;
  /** Device with the best claim. Undefined until it is needed, and again after a device was stored. */
  best: Device | undefined;
}

/**
 * Devices with one file identity or serial number, by host. Iteration skips devices that have moved to another drive.
 */
class OnOneDrive {
  readonly #hosts = new Map<HostId, OfHost>();

  constructor(private readonly tables: RegistryTables) {}

  add(device: Device): void {
    let host = this.#hosts.get(device.hostId);
    if (host === undefined) {
      host = { deviceIds: new Set(), ranges: new Ranges(), best: undefined };
      this.#hosts.set(device.hostId, host);
    }
    host.deviceIds.add(device.deviceId);
    host.ranges.add(device);
    host.best = undefined;
  }

  *overlapping(device: Device, isThere: IsThere): Generator<Device> {
    const found = this.#hosts.get(device.hostId)?.ranges.near(device) ?? [];
    for (const { deviceId, startBytes, sizeBytes } of found) {
      const other = this.tables.devices.get(deviceId);
      // Skips outdated ranges of a device that has moved.
      if (other?.offsetBytes !== startBytes || other.sizeBytes !== sizeBytes || !isThere(other)) continue;
      if (deviceId !== device.deviceId && overlap(device, other)) yield other;
    }
  }

  *bestOfOthers(hostId: HostId, isThere: IsThere): Generator<Device> {
    for (const [otherHostId, host] of this.#hosts) {
      if (otherHostId === hostId) continue;
      const isKept = host.best !== undefined && host.best === this.tables.devices.get(host.best.deviceId);
      if (!isKept) host.best = this.#bestOf(host, otherHostId, isThere);
      if (host.best !== undefined) yield host.best;
    }
  }

  #bestOf({ deviceIds }: OfHost, hostId: HostId, isThere: IsThere): Device | undefined {
    let best: Device | undefined;
    for (const deviceId of deviceIds) {
      const device = this.tables.devices.get(deviceId);
      if (device?.hostId !== hostId || !isThere(device)) continue;
      if (best === undefined || compareClaims(device, best) < 0) best = device;
    }
    return best;
  }
}

interface Range {
  readonly deviceId: DeviceId;
  readonly startBytes: number;
  /** Size in bytes; 0 when unknown. */
  readonly sizeBytes: number;
}

/**
 * Ranges of one file. Each list holds the ranges whose length is below the same power of two, sorted by start. A range
 * can overlap another one only if it starts less than that power of two before it, so `near` reads a short part of each
 * list.
 */
class Ranges {
  readonly #byMaxSize = new Map<number, Range[]>();

  add({ deviceId, offsetBytes: startBytes, sizeBytes }: Device): void {
    const maxSizeBytes = sizeBytes === 0 ? Number.POSITIVE_INFINITY : 2 ** (Math.floor(Math.log2(sizeBytes)) + 1);
    const ranges = this.#byMaxSize.get(maxSizeBytes) ?? [];
    this.#byMaxSize.set(maxSizeBytes, ranges);
    const at = firstFrom(ranges, startBytes);
    for (let same = at; ranges[same]?.startBytes === startBytes; same++)
      if (ranges[same]?.deviceId === deviceId && ranges[same]?.sizeBytes === sizeBytes) return;
    ranges.splice(at, 0, { deviceId, startBytes, sizeBytes });
  }

  /** Yields all ranges that overlap the device, and a few that do not. */
  *near({ offsetBytes, sizeBytes }: Device): Generator<Range> {
    const endBytes = offsetBytes + (sizeBytes || Number.POSITIVE_INFINITY);
    for (const [maxSizeBytes, ranges] of this.#byMaxSize)
      for (let at = firstFrom(ranges, offsetBytes - maxSizeBytes); at < ranges.length; at++) {
        const range = ranges[at] as Range;
        if (range.startBytes >= endBytes) break;
        yield range;
      }
  }
}

/** Returns the index of the first range that starts at or after `startBytes`. */
function firstFrom(ranges: readonly Range[], startBytes: number): number {
  let [low, high] = [0, ranges.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle] as Range).startBytes < startBytes) low = middle + 1;
    else high = middle;
  }
  return low;
}
