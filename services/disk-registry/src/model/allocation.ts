import type { HostId } from "@diskmesh/domain";
import { type Device, type DiskRequest, freeKey, type Host, type RegistryTables } from "./schema.js";

/** Why no devices were found: what is free, and what will be soon. */
export interface Shortage {
  readonly freeBytes: number;
  readonly erasingDevices: number;
  readonly erasingBytes: number;
  /** Enough would be free once all erases are done. */
  readonly sufficesAfterErase: boolean;
}

export type Allocation = { readonly devices: readonly Device[] } | { readonly shortage: Shortage };

interface FreeHost {
  readonly host: Host;
  readonly devices: readonly Device[];
  readonly sizeBytes: number;
}

/**
 * Chooses free devices for a disk, all or nothing. Whole devices are taken; few hosts and few physical paths are
 * preferred, or different racks when asked for. The same state gives the same choice.
 */
export function allocate(tables: RegistryTables, request: DiskRequest, maxDevices: number): Allocation {
  const hosts = candidateHosts(tables, request);
  const chosen = request.spreadRacks ? spread(tables, hosts, request, maxDevices) : pack(tables, hosts, request);
  if (chosen !== undefined && chosen.length <= maxDevices) return { devices: chosen };
  return { shortage: shortageOf(tables, hosts, request) };
}

function candidateHosts(tables: RegistryTables, request: DiskRequest): readonly Host[] {
  const hosts = request.hostId === "" ? tables.hosts.by("byAz", request.az) : [tables.hosts.get(request.hostId)];
  const candidates: Host[] = [];
  for (const host of hosts) {
    if (host === undefined || host.state !== "ONLINE" || host.removalRequested || host.mustRegister) continue;
    if (request.az === "" || host.az === request.az) candidates.push(host);
  }
  return candidates;
}

function freeDevices(tables: RegistryTables, host: Host, pool: string): FreeHost {
  const devices = [...tables.devices.by("freeByHostAndPool", freeKey(host.hostId, pool))];
  return { host, devices, sizeBytes: totalBytes(devices) };
}

/** How many hosts that could hold the whole disk are compared: the rest of a large fleet need not be looked at. */
const FITTING_HOSTS_COMPARED = 16;

function pack(tables: RegistryTables, hosts: readonly Host[], request: DiskRequest): readonly Device[] | undefined {
  const { pool, sizeBytes } = request;
  const counted = hosts
    .map((host) => ({ host, count: tables.devices.count("freeByHostAndPool", freeKey(host.hostId, pool)) }))
    .filter(({ count }) => count > 0)
    .sort((a, b) => b.count - a.count);
  const seen: FreeHost[] = [];
  const fitting: FreeHost[] = [];
  for (const { host } of counted) {
    const free = freeDevices(tables, host, pool);
    seen.push(free);
    if (free.sizeBytes >= sizeBytes) fitting.push(free);
    if (fitting.length === FITTING_HOSTS_COMPARED) break;
  }
  const cover = coverWith(fitting.length > 0 ? fitting : seen, sizeBytes);
  return cover?.flatMap(({ item, neededBytes }) => packHost(item, neededBytes));
}

function packHost(free: FreeHost, neededBytes: number): readonly Device[] {
  const paths = new Map<string, Device[]>();
  for (const device of free.devices) {
    const onPath = paths.get(device.path);
    if (onPath === undefined) paths.set(device.path, [device]);
    else onPath.push(device);
  }
  const groups = [...paths.values()].map((devices) => ({ devices, sizeBytes: totalBytes(devices) }));
  return cover(groups, neededBytes).flatMap((group) =>
    cover(group.item.devices, group.neededBytes).map(({ item }) => item),
  );
}

interface Covered<T> {
  readonly item: T;
  readonly neededBytes: number;
}

/** As coverWith, of things that are known to suffice. */
function cover<T extends { readonly sizeBytes: number }>(
  items: readonly T[],
  neededBytes: number,
): readonly Covered<T>[] {
  const covered = coverWith(items, neededBytes);
  if (covered === undefined) throw new Error(`${neededBytes} bytes were to be taken from less`);
  return covered;
}

/**
 * Few things that hold that many bytes together: the smallest that suffices alone, else the largest and then the same
 * for the rest. Undefined when all together do not suffice. Of equal ones the first is taken.
 */
function coverWith<T extends { readonly sizeBytes: number }>(
  items: readonly T[],
  neededBytes: number,
): readonly Covered<T>[] | undefined {
  const descending = [...items].sort((a, b) => b.sizeBytes - a.sizeBytes);
  const covered: Covered<T>[] = [];
  let restBytes = neededBytes;
  for (const [index, item] of descending.entries()) {
    if (item.sizeBytes < restBytes) {
      covered.push({ item, neededBytes: item.sizeBytes });
      restBytes -= item.sizeBytes;
      continue;
    }
    return [...covered, { item: smallestSufficient(descending, index, restBytes), neededBytes: restBytes }];
  }
  return undefined;
}

function smallestSufficient<T extends { readonly sizeBytes: number }>(
  descending: readonly T[],
  from: number,
  neededBytes: number,
): T {
  let best = descending[from] as T;
  for (const item of descending.slice(from + 1)) {
    if (item.sizeBytes < neededBytes) break;
    if (item.sizeBytes < best.sizeBytes) best = item;
  }
  return best;
}

/** One device at a time, each from the rack that has given the fewest so far, there from the host that has. */
function spread(
  tables: RegistryTables,
  hosts: readonly Host[],
  request: DiskRequest,
  maxDevices: number,
): readonly Device[] | undefined {
  const pools = hosts.map((host) => freeDevices(tables, host, request.pool)).filter((free) => free.devices.length > 0);
  const left = new Map(pools.map((free) => [free.host.hostId, [...free.devices]]));
  const fromRack = new Map<string, number>();
  const fromHost = new Map<HostId, number>();
  const chosen: Device[] = [];
  let restBytes = request.sizeBytes;
  while (restBytes > 0 && chosen.length < maxDevices) {
    const from = leastUsed(pools, left, fromRack, fromHost);
    if (from === undefined) return undefined;
    const available = left.get(from.hostId) as Device[];
    const device = pickOne(available, restBytes);
    available.splice(available.indexOf(device), 1);
    chosen.push(device);
    restBytes -= device.sizeBytes;
    fromRack.set(from.rack, (fromRack.get(from.rack) ?? 0) + 1);
    fromHost.set(from.hostId, (fromHost.get(from.hostId) ?? 0) + 1);
  }
  return restBytes > 0 ? undefined : chosen;
}

function leastUsed(
  pools: readonly FreeHost[],
  left: ReadonlyMap<HostId, readonly Device[]>,
  fromRack: ReadonlyMap<string, number>,
  fromHost: ReadonlyMap<HostId, number>,
): Host | undefined {
  let best: { host: Host; rack: number; own: number } | undefined;
  for (const { host } of pools) {
    if (left.get(host.hostId)?.length === 0) continue;
    const rack = fromRack.get(host.rack) ?? 0;
    const own = fromHost.get(host.hostId) ?? 0;
    if (best === undefined || rack < best.rack || (rack === best.rack && own < best.own)) best = { host, rack, own };
  }
  return best?.host;
}

function pickOne(devices: readonly Device[], neededBytes: number): Device {
  return (coverWith(devices, Math.min(neededBytes, totalBytes(devices))) as readonly Covered<Device>[])[0]
    ?.item as Device;
}

function shortageOf(tables: RegistryTables, hosts: readonly Host[], request: DiskRequest): Shortage {
  let freeBytes = 0;
  let erasingDevices = 0;
  let erasingBytes = 0;
  for (const host of hosts) {
    freeBytes += freeDevices(tables, host, request.pool).sizeBytes;
    for (const device of tables.devices.by("erasableByHost", host.hostId)) {
      if (device.pool !== request.pool || device.health !== "ONLINE" || device.removalRequested) continue;
      erasingDevices++;
      erasingBytes += device.sizeBytes;
    }
  }
  const sufficesAfterErase = erasingDevices > 0 && freeBytes + erasingBytes >= request.sizeBytes;
  return { freeBytes, erasingDevices, erasingBytes, sufficesAfterErase };
}

function totalBytes(devices: readonly { readonly sizeBytes: number }[]): number {
  return devices.reduce((sum, device) => sum + device.sizeBytes, 0);
}
