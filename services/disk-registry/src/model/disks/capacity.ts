import { type HostId, sumBytes } from "@diskmesh/domain";
import { type Device, type Host, isErasable, isFree, type RegistryTables } from "../store/schema.js";
import { bytesByUse, spacesOf } from "../store/slices.js";
import { deletedDisks } from "./deleted-disks.js";
import { isPlaceable, type WhySuspected } from "./placement.js";

/** Space of a pool in an az, in bytes. */
export interface PoolCapacity {
  readonly az: string;
  readonly pool: string;
  readonly totalBytes: number;
  readonly freeBytes: number;
  readonly maxDiskBytes: number;
  readonly maxPartBytes: number;
  /** Bytes of deleted disks that are kept. */
  readonly deletedBytes: number;
  /** Bytes that are free, to be erased, or of deleted disks, on devices that take new disks. */
  readonly soonFreeBytes: number;
  /**
   * Minimum of `soonFreeBytes` with which any one host can be emptied: the most bytes of disks, and of those, on one host.
   * 0 where only one host has devices.
   */
  readonly repairBytes: number;
}

interface CapacityOptions {
  readonly whySuspected: WhySuspected;
  /** Maximum parts of a disk. */
  readonly maxDevices: number;
}

interface Sums {
  totalBytes: number;
  deletedBytes: number;
  dirtyBytes: number;
  /** Bytes that disks have, or will be able to take, by host. */
  readonly bytesOfHosts: Map<HostId, number>;
  /** Sizes of the spaces that `allocate` may use now. */
  readonly freeSizesBytes: number[];
}

/**
 * Returns the space of each pool with attached devices, ordered by az and pool. Reads only the devices of the az that
 * the filter names.
 */
export function capacityOf(
  tables: RegistryTables,
  filter: { readonly az?: string | undefined; readonly pool?: string | undefined },
  { whySuspected, maxDevices }: CapacityOptions,
): readonly PoolCapacity[] {
  const hosts = filter.az === undefined ? tables.hosts.entries() : tables.hosts.by("byAz", filter.az);
  const byAz = new Map<string, Map<string, Sums>>();
  for (const host of hosts) {
    const pools = byAz.get(host.az) ?? new Map<string, Sums>();
    byAz.set(host.az, pools);
    addHost(pools, tables, host, { pool: filter.pool, isUsable: isPlaceable(host, whySuspected) });
  }
  for (const { az, requested, sizeBytes } of deletedDisks(tables)) {
    const sums = byAz.get(az)?.get(requested.pool);
    if (sums !== undefined) sums.deletedBytes = sumBytes([sums.deletedBytes, sizeBytes]);
  }
  const inOrder = <Value>(map: ReadonlyMap<string, Value>) => [...map].sort(([a], [b]) => (a < b ? -1 : 1));
  return inOrder(byAz).flatMap(([az, pools]) =>
    inOrder(pools).map(([pool, { totalBytes, deletedBytes, dirtyBytes, bytesOfHosts, freeSizesBytes }]) => {
      const largestFirst = freeSizesBytes.sort((a, b) => b - a);
      const freeBytes = sumBytes(largestFirst);
      const maxDiskBytes = sumBytes(largestFirst.slice(0, maxDevices));
      const maxPartBytes = largestFirst[0] ?? 0;
      const soonFreeBytes = sumBytes([freeBytes, dirtyBytes, deletedBytes]);
      const repairBytes = bytesOfHosts.size < 2 ? 0 : Math.max(...bytesOfHosts.values());
      const ofDisks = { maxDiskBytes, maxPartBytes, deletedBytes };
      return { az, pool, totalBytes, freeBytes, ...ofDisks, soonFreeBytes, repairBytes };
    }),
  );
}

function addHost(
  pools: Map<string, Sums>,
  tables: RegistryTables,
  { hostId }: Host,
  { pool: wanted, isUsable }: { readonly pool: string | undefined; readonly isUsable: boolean },
): void {
  for (const device of tables.devices.by("byHost", hostId)) {
    const { pool, sizeBytes } = device;
    const room = roomOn(device);
    if (room === undefined || (wanted !== undefined && pool !== wanted)) continue;
    const sums: Sums = pools.get(pool) ?? {
      totalBytes: 0,
      deletedBytes: 0,
      dirtyBytes: 0,
      bytesOfHosts: new Map(),
      freeSizesBytes: [],
    };
    pools.set(pool, sums);
    sums.totalBytes = sumBytes([sums.totalBytes, sizeBytes]);
    const freeSizesBytes = isUsable ? room.freeSizesBytes : [];
    const dirtyBytes = isUsable ? room.dirtyBytes : 0;
    sums.freeSizesBytes.push(...freeSizesBytes);
    sums.dirtyBytes = sumBytes([sums.dirtyBytes, dirtyBytes]);
    const before = sums.bytesOfHosts.get(hostId) ?? 0;
    sums.bytesOfHosts.set(hostId, sumBytes([before, room.diskBytes, dirtyBytes, ...freeSizesBytes]));
  }
}

/** Bytes of a device, as far as disks have them, or will be able to take them. */
interface Room {
  readonly diskBytes: number;
  readonly dirtyBytes: number;
  readonly freeSizesBytes: readonly number[];
}

/** Returns the bytes of a device of a host that takes new disks; undefined for one that is not in operation. */
export function roomOn(device: Device): Room | undefined {
  if (device.attachState !== "ATTACHED") return undefined;
  const { disk, dirty } = bytesByUse(device);
  return {
    diskBytes: disk,
    dirtyBytes: isErasable(device) ? dirty : 0,
    freeSizesBytes: isFree(device) ? spacesOf(device).map((space) => space.sizeBytes) : [],
  };
}
