import type { DeviceId, HostId } from "@diskmesh/domain";
import { byCount, byLargest, byRack, byTotal, type FreeSpace, freeSpaceOf } from "../store/free-space.js";
import type { Device, DiskRequest, Host, RegistryTables } from "../store/schema.js";
import { type Space, spacesOf } from "../store/slices.js";
import { isPlaceable, NOBODY_SUSPECTED, type WhySuspected } from "./placement.js";

export interface AllocationLimits {
  readonly maxDevices: number;
  /** Maximum block size of the devices, in bytes. Absent: any. */
  readonly maxBlockSizeBytes?: number;
  /**
   * Devices that the disk names already, and that are not chosen. One that was purged may be free under its old id, and
   * would pass for the device with the lost bytes. Absent: none.
   */
  readonly named?: ReadonlySet<DeviceId>;
  /**
   * Random number in [0, 1) that chooses among equal hosts and devices, so that retries do not always meet the same bad
   * one.
   */
  readonly draw: number;
  /** Suspected hosts get no new disk. Absent: no host is suspected. */
  readonly whySuspected?: WhySuspected;
  /**
   * Returns whether an UNAVAILABLE host may still be heard, because this registry became leader recently. Absent: no
   * host may still be heard.
   */
  readonly mayYetBeHeard?: (hostId: HostId) => boolean;
  /** Host that is preferred among equally good single hosts; empty for none. */
  readonly nearHostId?: HostId | "";
}

type DeviceLimits = Pick<AllocationLimits, "maxBlockSizeBytes" | "named">;

/** Free devices of a host that a request may use. */
export class FreeDevices {
  #devices: Space[];

  constructor(devices: readonly Space[]) {
    this.#devices = [...largestFirst(devices)];
  }

  /** Devices that were not taken, largest first. */
  get left(): readonly Space[] {
    return this.#devices;
  }

  /** Returns the bytes of the largest devices, up to that number of devices. */
  largestBytes(count: number): number {
    return totalBytes(this.#devices.slice(0, count));
  }

  /** Takes the smallest device of `restBytes`, or the largest device when that has at least `minBytes`. */
  take(minBytes: number, restBytes: number): Space | undefined {
    const device = smallestOf(this.#devices, restBytes) ?? this.#devices[0];
    if (device === undefined || device.sizeBytes < minBytes) return undefined;
    this.#devices.splice(this.#devices.indexOf(device), 1);
    return device;
  }
}

/** Hosts and devices that a request may use. Reads from the tables as few of them as the choice asks for. */
export class Candidates {
  readonly #freeDevices = new Map<HostId, FreeDevices>();
  readonly #whySuspected: WhySuspected;
  readonly #drawInHost: number;

  constructor(
    private readonly tables: RegistryTables,
    private readonly request: DiskRequest,
    private readonly limits: AllocationLimits,
  ) {
    this.#whySuspected = limits.whySuspected ?? NOBODY_SUSPECTED;
    // The fraction of the draw that the choice of a host leaves.
    this.#drawInHost = (limits.draw * 2 ** 16) % 1;
  }

  byCount(): Iterable<FreeSpace> {
    return this.#ofHosts(() => byCount(this.tables, this.request, this.limits.draw));
  }

  byTotal(): Iterable<FreeSpace> {
    return this.#ofHosts(() => byTotal(this.tables, this.request));
  }

  byLargest(): Iterable<FreeSpace> {
    return this.#ofHosts(() => byLargest(this.tables, this.request));
  }

  *byRack(): Generator<Iterable<FreeSpace>> {
    if (this.request.hostId !== "") yield this.byTotal();
    else for (const rack of byRack(this.tables, this.request, this.limits.draw)) yield this.#unsuspected(rack);
  }

  /** Returns the near host's free space, if the request may use that host. */
  get near(): FreeSpace | undefined {
    return this.#spaceOf(this.limits.nearHostId ?? "");
  }

  freeDevicesOf(hostId: HostId): FreeDevices {
    const known = this.#freeDevices.get(hostId);
    if (known !== undefined) return known;
    const free = freeOf(this.tables, hostId, this.request, this.limits);
    const devices = new FreeDevices(rotated(free, this.#drawInHost));
    this.#freeDevices.set(hostId, devices);
    return devices;
  }

  #ofHosts(ofAz: () => Iterable<FreeSpace>): Iterable<FreeSpace> {
    const { hostId } = this.request;
    if (hostId === "") return this.#unsuspected(ofAz());
    const space = this.#spaceOf(hostId);
    return space === undefined ? [] : [space];
  }

  *#unsuspected(spaces: Iterable<FreeSpace>): Generator<FreeSpace> {
    for (const space of spaces) if (this.#whySuspected(space.hostId) === undefined) yield space;
  }

  #spaceOf(hostId: HostId | ""): FreeSpace | undefined {
    const host = this.tables.hosts.get(hostId);
    if (host === undefined || !isAllowed(host, this.request) || !isPlaceable(host, this.#whySuspected))
      return undefined;
    return freeSpaceOf(host, this.freeDevicesOf(host.hostId).left);
  }
}

/** Returns the largest devices, largest first: as many as hold `neededBytes`, up to the maximum. */
export function largestDevices(candidates: Candidates, neededBytes: number, maxDevices: number): Space[] {
  let found: readonly Space[] = [];
  for (const { hostId, largestBytes } of candidates.byLargest()) {
    const known = found.filter(({ sizeBytes }) => sizeBytes >= largestBytes);
    if (known.length >= maxDevices || totalBytes(known) >= neededBytes) break;
    found = largestFirst([...found, ...candidates.freeDevicesOf(hostId).left]).slice(0, Math.max(0, maxDevices));
  }
  return [...found];
}

/** Returns whether the request allows the host, whatever its state. */
function isAllowed(host: Host, { az, hostId }: DiskRequest): boolean {
  return hostId === "" ? host.az === az : host.hostId === hostId && (az === "" || host.az === az);
}

/** Returns the free spaces of a host that a request may use. */
export function freeOf(
  tables: RegistryTables,
  hostId: HostId,
  request: DiskRequest,
  limits: DeviceLimits,
): readonly Space[] {
  return usableOf(tables, hostId, request, limits).flatMap(spacesOf);
}

/** Returns the devices of a host without runs that a request may use, each as a whole. */
export function emptyOf(
  tables: RegistryTables,
  hostId: HostId,
  request: DiskRequest,
  limits: DeviceLimits,
): readonly Space[] {
  const empty = usableOf(tables, hostId, request, limits).filter(({ runs }) => runs.length === 0);
  return empty.map(({ deviceId, path, pool, blockSizeBytes, sizeBytes }) => {
    return { deviceId, hostId, path, pool, blockSizeBytes, sizeBytes };
  });
}

function usableOf(
  tables: RegistryTables,
  hostId: HostId,
  { pool }: DiskRequest,
  { maxBlockSizeBytes = Number.POSITIVE_INFINITY, named }: DeviceLimits,
): readonly Device[] {
  return [...tables.devices.by("freeByHost", hostId)].filter(
    (device) =>
      device.pool === pool && device.blockSizeBytes <= maxBlockSizeBytes && named?.has(device.deviceId) !== true,
  );
}

function rotated<T>(items: readonly T[], draw: number): readonly T[] {
  const first = Math.floor(draw * items.length);
  return [...items.slice(first), ...items.slice(0, first)];
}

/** Returns the smallest device of at least that size, and the first of equal ones. */
export function smallestOf(devices: readonly Space[], minBytes: number): Space | undefined {
  const last = devices[countFrom(devices, minBytes) - 1];
  return last === undefined ? undefined : devices[countFrom(devices, last.sizeBytes + 1)];
}

/** Returns the number of devices of at least that size; the devices are sorted largest first. */
function countFrom(devices: readonly Space[], minBytes: number): number {
  let [low, high] = [0, devices.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((devices[middle] as Space).sizeBytes >= minBytes) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function largestFirst(devices: readonly Space[]): readonly Space[] {
  return [...devices].sort((a, b) => b.sizeBytes - a.sizeBytes);
}

export function totalBytes(devices: readonly { readonly sizeBytes: number }[]): number {
  return devices.reduce((sum, device) => sum + device.sizeBytes, 0);
}
