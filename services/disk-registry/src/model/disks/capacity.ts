import { sumBytes } from "@diskmesh/domain";
import { type Host, isFree, type RegistryTables } from "../store/schema.js";
import { spacesOf } from "../store/slices.js";
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
}

interface CapacityOptions {
  readonly whySuspected: WhySuspected;
  /** Maximum parts of a disk. */
  readonly maxDevices: number;
}

interface Sums {
  totalBytes: number;
  deletedBytes: number;
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
    inOrder(pools).map(([pool, { totalBytes, deletedBytes, freeSizesBytes }]) => {
      const largestFirst = freeSizesBytes.sort((a, b) => b - a);
      const freeBytes = sumBytes(largestFirst);
      const maxDiskBytes = sumBytes(largestFirst.slice(0, maxDevices));
      const maxPartBytes = largestFirst[0] ?? 0;
      return { az, pool, totalBytes, freeBytes, maxDiskBytes, maxPartBytes, deletedBytes };
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
    const { attachState, pool, sizeBytes } = device;
    if (attachState !== "ATTACHED" || (wanted !== undefined && pool !== wanted)) continue;
    const sums = pools.get(pool) ?? { totalBytes: 0, deletedBytes: 0, freeSizesBytes: [] };
    pools.set(pool, sums);
    sums.totalBytes = sumBytes([sums.totalBytes, sizeBytes]);
    if (isUsable && isFree(device)) sums.freeSizesBytes.push(...spacesOf(device).map((space) => space.sizeBytes));
  }
}
