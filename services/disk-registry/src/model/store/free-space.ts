import type { HostId } from "@diskmesh/domain";
import type { Space } from "./slices.js";

interface Place {
  readonly hostId: HostId;
  readonly az: string;
  readonly rack: string;
}

/** Tables with rows of free space. Their types are below those of the documents, which are declared with the rows. */
export interface FreeSpaceTables {
  readonly hosts: { rows(after: string, before: string): Iterable<FreeSpace> };
}

/** Free bytes of one pool on a host that takes new disks. */
export interface FreeSpace {
  readonly hostId: HostId;
  readonly rack: string;
  /** Number of devices with free bytes. */
  readonly count: number;
  readonly totalBytes: number;
  readonly largestBytes: number;
}

/** Place and pool of the free space that is searched. */
export interface Area {
  readonly az: string;
  readonly pool: string;
}

/** Sorts behind every digit and letter that may follow in a key. */
const END = "~";
/** Digits of the largest safe integer. */
const NUMBER_DIGITS = 16;

// Keys are parts separated by spaces, because names and ids contain none.
const startOf = ({ az, pool }: Area, order: "count" | "total" | "largest" | "rack"): string =>
  `${az} ${pool} ${order} `;
/** Sorts larger numbers first. */
const descending = (value: number): string =>
  `${Math.max(0, Number.MAX_SAFE_INTEGER - value)}`.padStart(NUMBER_DIGITS, "0");
const rackPart = (rack: string): string => `${hashOf(rack)} ${rack} `;

/** Returns the free space of a host by pool, once under each key by which it is searched. */
export function* freeSpaceRows(host: Place, free: Iterable<Space>): Generator<readonly [key: string, row: FreeSpace]> {
  const byPool = new Map<string, Space[]>();
  for (const space of free) {
    const ofPool = byPool.get(space.pool);
    if (ofPool === undefined) byPool.set(space.pool, [space]);
    else ofPool.push(space);
  }
  // The hash scatters neighbours, so that disks created one after another do not meet in one rack.
  const last = `${hashOf(host.hostId)} ${host.hostId}`;
  for (const [pool, spaces] of byPool) {
    const space = freeSpaceOf(host, spaces);
    const start = (order: Parameters<typeof startOf>[1]): string => startOf({ az: host.az, pool }, order);
    yield [`${start("count")}${descending(space.count)} ${last}`, space];
    yield [`${start("total")}${descending(space.totalBytes)} ${last}`, space];
    yield [`${start("largest")}${descending(space.largestBytes)} ${last}`, space];
    yield [`${start("rack")}${rackPart(host.rack)}${last}`, space];
  }
}

export function freeSpaceOf({ hostId, rack }: Pick<Place, "hostId" | "rack">, free: readonly Space[]): FreeSpace {
  let [totalBytes, largestBytes] = [0, 0];
  for (const { sizeBytes } of free) {
    totalBytes += sizeBytes;
    largestBytes = Math.max(largestBytes, sizeBytes);
  }
  return { hostId, rack, count: new Set(free.map(({ deviceId }) => deviceId)).size, totalBytes, largestBytes };
}

/** Returns hosts by their free devices, the most first; `draw` rotates those with equally many. */
export function* byCount({ hosts }: FreeSpaceTables, area: Area, draw: number): Generator<FreeSpace> {
  const start = startOf(area, "count");
  for (let after = start; ; ) {
    const first = firstOf(hosts.rows(after, start + END));
    if (first === undefined) return;
    const equal = `${start}${descending(first.count)} `;
    yield* rotated(hosts, equal, draw);
    after = equal + END;
  }
}

/** Returns hosts by their free bytes, the most first. */
export function byTotal({ hosts }: FreeSpaceTables, area: Area): Iterable<FreeSpace> {
  const start = startOf(area, "total");
  return hosts.rows(start, start + END);
}

/** Returns hosts by their largest free device, the largest first. */
export function byLargest({ hosts }: FreeSpaceTables, area: Area): Iterable<FreeSpace> {
  const start = startOf(area, "largest");
  return hosts.rows(start, start + END);
}

/** Returns the hosts of each rack; `draw` rotates the racks and the hosts in them. */
export function* byRack({ hosts }: FreeSpaceTables, area: Area, draw: number): Generator<Iterable<FreeSpace>> {
  const start = startOf(area, "rack");
  const drawn = start + hexOf(draw);
  for (const [from, to] of [
    [drawn, start + END],
    [start, drawn],
  ] as const) {
    for (let after = from; ; ) {
      const first = firstOf(hosts.rows(after, to));
      if (first === undefined) break;
      const rack = `${start}${rackPart(first.rack)}`;
      yield rotated(hosts, rack, draw);
      after = rack + END;
    }
  }
}

function* rotated(hosts: FreeSpaceTables["hosts"], start: string, draw: number): Generator<FreeSpace> {
  const drawn = start + hexOf(draw);
  yield* hosts.rows(drawn, start + END);
  yield* hosts.rows(start, drawn);
}

function firstOf<T>(items: Iterable<T>): T | undefined {
  for (const item of items) return item;
  return undefined;
}

const hexOf = (draw: number): string =>
  Math.floor(draw * 2 ** 32)
    .toString(16)
    .padStart(8, "0");

/** Returns 32 evenly distributed bits in hexadecimal digits: FNV-1a, mixed as in MurmurHash3. */
function hashOf(text: string): string {
  let hash = 0x811c9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0).toString(16).padStart(8, "0");
}
