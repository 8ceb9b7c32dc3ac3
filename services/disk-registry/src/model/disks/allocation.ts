import type { HostId } from "@diskmesh/domain";
import { type Device, type DiskRequest, freeKey, type Host, type RegistryTables } from "../store/schema.js";
import { isPlaceable, NOBODY_SUSPECTED, type WhySuspected } from "./placement.js";

/** Free space when an allocation failed, and space that becomes free soon. */
export interface Shortage {
  readonly freeBytes: number;
  /** Free bytes on the largest devices, up to the maximum number of devices of a disk. */
  readonly usableBytes: number;
  readonly erasingDevices: number;
  /**
   * Devices that are being attached, or that are free on suspected hosts. A suspected host is soon either heard again
   * or UNAVAILABLE.
   */
  readonly comingDevices: number;
  /** True when the free and the coming devices together hold the disk. */
  readonly sufficesSoon: boolean;
  /**
   * UNAVAILABLE hosts that may still be heard and whose devices would hold the rest of the disk. Empty when
   * `sufficesSoon`.
   */
  readonly awaitedHostIds: readonly HostId[];
  /**
   * Numbers of free devices that are not used, because an unknown disk holds them, or because an operator overrode
   * their health.
   */
  readonly blocked: { readonly heldByUnknownDisk: number; readonly saidUnwell: number };
}

export type Allocation = { readonly devices: readonly Device[] } | { readonly shortage: Shortage };

export interface AllocationLimits {
  readonly maxDevices: number;
  /** Maximum block size of the devices, in bytes. Absent: any. */
  readonly maxBlockSizeBytes?: number;
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

interface FreeHost {
  readonly host: Host;
  /** Largest devices first. */
  readonly devices: readonly Device[];
}

/**
 * Chooses free devices for a disk, or none when they do not suffice. Takes whole devices. Prefers few hosts, then few
 * devices and physical paths, then the near host, or different racks when requested. Finds a choice whenever one
 * exists. The same state and draw give the same choice.
 */
export function allocate(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): Allocation {
  const candidates = candidateHosts(tables, request, limits.whySuspected ?? NOBODY_SUSPECTED);
  const hosts = rotated(candidates, limits.draw);
  // Chooses the devices with the fraction of the draw that the choice of a host leaves.
  const inHost = { ...limits, draw: (limits.draw * candidates.length) % 1 };
  const devices = request.spreadRacks
    ? gather(freeHosts(tables, hosts, request, inHost), request.sizeBytes, limits.maxDevices, leastUsedRack)
    : pack(tables, hosts, request, inHost);
  return devices === undefined ? { shortage: shortageOf(tables, request, limits) } : { devices };
}

function rotated<T>(items: readonly T[], draw: number): readonly T[] {
  const first = Math.floor(draw * items.length);
  return [...items.slice(first), ...items.slice(0, first)];
}

function candidateHosts(tables: RegistryTables, request: DiskRequest, whySuspected: WhySuspected): readonly Host[] {
  return hostsOf(tables, request).filter((host) => isPlaceable(host, whySuspected));
}

/** Returns all hosts that the request allows, in any state. */
function hostsOf(tables: RegistryTables, { hostId, az }: DiskRequest): readonly Host[] {
  const hosts = hostId === "" ? [...tables.hosts.by("byAz", az)] : [tables.hosts.get(hostId)];
  return hosts.filter((host) => host !== undefined && (az === "" || host.az === az)) as Host[];
}

/** Returns whether the host may be placeable once its agent has registered. */
function isAwaited(host: Host, mayYetBeHeard: (hostId: HostId) => boolean): boolean {
  if (host.removalRequested || host.state === "DEAD") return false;
  return host.state === "UNAVAILABLE" ? mayYetBeHeard(host.hostId) : host.mustRegister === true;
}

function freeOf(tables: RegistryTables, host: Host, request: DiskRequest, limits: AllocationLimits): FreeHost {
  const { maxBlockSizeBytes = Number.POSITIVE_INFINITY, draw } = limits;
  const free = [...tables.devices.by("freeByHostAndPool", freeKey(host.hostId, request.pool))];
  const usable = free.filter((device) => device.blockSizeBytes <= maxBlockSizeBytes);
  return { host, devices: largestFirst(rotated(usable, draw)) };
}

function freeHosts(
  tables: RegistryTables,
  hosts: readonly Host[],
  request: DiskRequest,
  limits: AllocationLimits,
): readonly FreeHost[] {
  return hosts.map((host) => freeOf(tables, host, request, limits)).filter(({ devices }) => devices.length > 0);
}

/** Maximum hosts compared among those that can hold the whole disk. Bounds the work in a large fleet. */
const FITTING_HOSTS_COMPARED = 16;

function pack(
  tables: RegistryTables,
  hosts: readonly Host[],
  request: DiskRequest,
  limits: AllocationLimits,
): readonly Device[] | undefined {
  const { pool, sizeBytes } = request;
  const isFar = ({ hostId }: Host): number => Number(hostId !== limits.nearHostId);
  const counted = hosts
    .map((host) => ({ host, count: tables.devices.count("freeByHostAndPool", freeKey(host.hostId, pool)) }))
    .filter(({ count }) => count > 0)
    // The sort is stable, so the first of equal choices is taken.
    .sort((a, b) => isFar(a.host) - isFar(b.host) || b.count - a.count);
  const seen: FreeHost[] = [];
  const fitting: Choice[] = [];
  for (const { host } of counted) {
    const free = freeOf(tables, host, request, limits);
    seen.push(free);
    const choice = cheapest(free.devices, sizeBytes, limits.maxDevices);
    if (choice !== undefined) fitting.push(choice);
    if (fitting.length === FITTING_HOSTS_COMPARED) break;
  }
  if (fitting.length === 0) return gather(seen, sizeBytes, limits.maxDevices, usedHostThenLargest);
  return fitting.reduce((best, choice) => (choice.cost < best.cost ? choice : best)).devices;
}

interface Choice {
  readonly devices: readonly Device[];
  readonly cost: number;
}

/**
 * Returns the cheapest choice of devices on one host. The cost is the wasted space, plus the disk's size for each
 * device and each path beyond the first. So two small devices are cheaper than a single device of ten times the size,
 * and one large device is cheaper than ten small ones.
 */
function cheapest(devices: readonly Device[], neededBytes: number, maxDevices: number): Choice | undefined {
  const onOnePath = [...byPath(devices).values()].filter(
    (onPath) => onPath.length > 1 && onPath.length < devices.length,
  );
  let best: Choice | undefined;
  for (const from of [...onOnePath, devices]) {
    for (let count = 1; count <= Math.min(maxDevices, from.length); count++) {
      const chosen = coverWith(from, neededBytes, count);
      if (chosen === undefined) continue;
      const cost = totalBytes(chosen) + (count + byPath(chosen).size - 2) * neededBytes;
      if (best === undefined || cost < best.cost) best = { devices: chosen, cost };
    }
  }
  return best;
}

function byPath(devices: readonly Device[]): ReadonlyMap<string, readonly Device[]> {
  const paths = new Map<string, Device[]>();
  for (const device of devices) {
    const onPath = paths.get(device.path);
    if (onPath === undefined) paths.set(device.path, [device]);
    else onPath.push(device);
  }
  return paths;
}

/**
 * Chooses `count` of the devices, which are sorted largest first. Starts with the largest devices, and replaces each by
 * the smallest device that still suffices.
 */
function coverWith(devices: readonly Device[], neededBytes: number, count: number): readonly Device[] | undefined {
  const chosen = devices.slice(0, count);
  let spareBytes = totalBytes(chosen) - neededBytes;
  if (spareBytes < 0) return undefined;
  const left = devices.slice(count);
  for (const [index, device] of chosen.entries()) {
    const smaller = smallestOf(left, device.sizeBytes - spareBytes);
    if (smaller === undefined || smaller.sizeBytes === device.sizeBytes) continue;
    chosen[index] = smaller;
    left.splice(left.indexOf(smaller), 1);
    spareBytes -= device.sizeBytes - smaller.sizeBytes;
  }
  return chosen;
}

/** Returns the smallest device of at least that size, and the first of equal ones. */
function smallestOf(devices: readonly Device[], minBytes: number): Device | undefined {
  const last = devices[countFrom(devices, minBytes) - 1];
  return last === undefined ? undefined : devices[countFrom(devices, last.sizeBytes + 1)];
}

/** Returns the number of devices of at least that size; the devices are sorted largest first. */
function countFrom(devices: readonly Device[], minBytes: number): number {
  let [low, high] = [0, devices.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((devices[middle] as Device).sizeBytes >= minBytes) low = middle + 1;
    else high = middle;
  }
  return low;
}

interface Gathered {
  readonly ofRack: Map<string, number>;
  readonly ofHost: Map<HostId, number>;
}

/** Returns the rank of a host; the host with the lowest rank is used first. */
type Order = (free: FreeHost, gathered: Gathered, devicesLeft: number) => number;

// The host's count only breaks ties between racks, because its term stays below 1.
const leastUsedRack: Order = ({ host }, { ofRack, ofHost }) =>
  (ofRack.get(host.rack) ?? 0) + (ofHost.get(host.hostId) ?? 0) / Number.MAX_SAFE_INTEGER;

const usedHostThenLargest: Order = ({ host, devices }, { ofHost }, devicesLeft) =>
  ofHost.has(host.hostId) ? Number.NEGATIVE_INFINITY : -totalBytes(devices.slice(0, devicesLeft));

/** Takes one device after another, and checks each time that the largest remaining devices hold the rest. */
function gather(
  hosts: readonly FreeHost[],
  neededBytes: number,
  maxDevices: number,
  order: Order,
): readonly Device[] | undefined {
  const left = new Map(hosts.map((free) => [free.host.hostId, free]));
  const all = [...largestFirst(hosts.flatMap(({ devices }) => devices))];
  const gathered: Gathered = { ofRack: new Map(), ofHost: new Map() };
  const chosen: Device[] = [];
  for (let restBytes = neededBytes; restBytes > 0; ) {
    const devicesLeft = Math.max(0, maxDevices - chosen.length);
    const ranked = [...left.values()]
      .map((free) => ({ free, rank: order(free, gathered, devicesLeft) }))
      .sort((a, b) => a.rank - b.rank);
    const device = firstThatSuffices(
      ranked.map(({ free }) => free),
      all.slice(0, devicesLeft),
      restBytes,
    );
    if (device === undefined) return undefined;
    const { host, devices } = left.get(device.hostId) as FreeHost;
    const others = devices.filter((other) => other !== device);
    if (others.length > 0) left.set(host.hostId, { host, devices: others });
    else left.delete(host.hostId);
    all.splice(all.indexOf(device), 1);
    chosen.push(device);
    restBytes -= device.sizeBytes;
    gathered.ofRack.set(host.rack, (gathered.ofRack.get(host.rack) ?? 0) + 1);
    gathered.ofHost.set(host.hostId, (gathered.ofHost.get(host.hostId) ?? 0) + 1);
  }
  return chosen;
}

/**
 * Returns a device of the first host that has a suitable one. A device is suitable when it and the `largest` other
 * devices hold `restBytes`.
 */
function firstThatSuffices(
  hosts: readonly FreeHost[],
  largest: readonly Device[],
  restBytes: number,
): Device | undefined {
  for (const { devices } of hosts) {
    const device = smallestOf(devices, restBytes) ?? (devices[0] as Device);
    const others = largest.filter((other) => other !== device).slice(0, Math.max(0, largest.length - 1));
    if (largest.length > 0 && device.sizeBytes + totalBytes(others) >= restBytes) return device;
  }
  return undefined;
}

function shortageOf(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): Shortage {
  const { whySuspected = NOBODY_SUSPECTED, maxBlockSizeBytes = Number.POSITIVE_INFINITY } = limits;
  const { mayYetBeHeard = () => false } = limits;
  const all = hostsOf(tables, request);
  const hosts = all.filter((host) => isPlaceable(host, NOBODY_SUSPECTED));
  const awaited = all.filter((host) => isAwaited(host, mayYetBeHeard));
  const isSuspected = ({ hostId }: Host): boolean => whySuspected(hostId) !== undefined;
  const freeOn = (some: readonly Host[]): readonly Device[] =>
    freeHosts(tables, some, request, limits).flatMap(({ devices }) => devices);
  const fits = ({ pool, health, diskId, removalRequested, blockSizeBytes }: Device): boolean =>
    pool === request.pool &&
    health === "ONLINE" &&
    diskId === "" &&
    !removalRequested &&
    blockSizeBytes <= maxBlockSizeBytes;
  const ofEach = (some: readonly Host[], index: "erasableByHost" | "awaitingOrderByHost"): readonly Device[] =>
    some.flatMap(({ hostId }) => [...tables.devices.by(index, hostId)]).filter(fits);
  const attachingOn = (some: readonly Host[]): readonly Device[] =>
    ofEach(some, "awaitingOrderByHost").filter(({ attachState }) => attachState === "ATTACHING");
  const free = freeOn(hosts.filter((host) => !isSuspected(host)));
  const erasing = ofEach(hosts, "erasableByHost");
  const attaching = attachingOn(hosts);
  const coming = [...attaching, ...freeOn(hosts.filter(isSuspected))];
  const soon = [...erasing, ...coming];
  const usableBytes = (devices: readonly Device[]): number =>
    totalBytes(largestFirst(devices).slice(0, Math.max(0, limits.maxDevices)));
  const sufficesSoon = soon.length > 0 && usableBytes([...free, ...soon]) >= request.sizeBytes;
  const awaitedDevices = [...freeOn(awaited), ...ofEach(awaited, "erasableByHost"), ...attachingOn(awaited)];
  const sufficesOnceHeard = !sufficesSoon && usableBytes([...free, ...soon, ...awaitedDevices]) >= request.sizeBytes;
  return {
    freeBytes: totalBytes(free),
    usableBytes: usableBytes(free),
    erasingDevices: erasing.length,
    comingDevices: coming.length,
    sufficesSoon,
    awaitedHostIds: sufficesOnceHeard ? awaited.map(({ hostId }) => hostId) : [],
    blocked: blockedOn(tables, all, request),
  };
}

function blockedOn(tables: RegistryTables, hosts: readonly Host[], { pool }: DiskRequest): Shortage["blocked"] {
  const devices = hosts.flatMap(({ hostId }) => [...tables.devices.by("overriddenByHost", hostId)]);
  const ofPool = devices.filter((device) => device.pool === pool);
  const heldByUnknownDisk = ofPool.filter(({ unknownSession }) => unknownSession !== undefined).length;
  return { heldByUnknownDisk, saidUnwell: ofPool.length - heldByUnknownDisk };
}

function largestFirst(devices: readonly Device[]): readonly Device[] {
  return [...devices].sort((a, b) => b.sizeBytes - a.sizeBytes);
}

function totalBytes(devices: readonly { readonly sizeBytes: number }[]): number {
  return devices.reduce((sum, device) => sum + device.sizeBytes, 0);
}
