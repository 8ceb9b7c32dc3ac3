import type { HostId } from "@diskmesh/domain";
import type { FreeSpace } from "../store/free-space.js";
import type { DiskRequest, RegistryTables } from "../store/schema.js";
import { fitted, type Space } from "../store/slices.js";
import { type AllocationLimits, Candidates, smallestOf, totalBytes } from "./candidates.js";
import { fill, MAX_HOSTS_READ, spread } from "./gathering.js";
import { type Shortage, shortageOf } from "./shortage.js";

export type Allocation = { readonly spaces: readonly Space[] } | { readonly shortage: Shortage };

/**
 * Chooses free space for a disk, or none when it does not suffice: as many slices as the disk takes, or whole devices
 * where these have no slices. Prefers few hosts, then few parts and physical paths, then the near host, then the host
 * with the most free devices; or different racks when requested. Finds a choice whenever one exists. The same state and
 * draw give the same choice.
 */
export function allocate(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): Allocation {
  const candidates = new Candidates(tables, request, limits);
  const { sizeBytes, spreadRacks } = request;
  const spaces =
    spreadRacks && !fitsOneRun(candidates, sizeBytes)
      ? spread(candidates, sizeBytes, limits.maxDevices)
      : pack(candidates, sizeBytes, limits.maxDevices);
  return spaces === undefined
    ? { shortage: shortageOf(tables, request, limits) }
    : { spaces: allFitted(spaces, sizeBytes) };
}

/** Returns whether one run of slices has room for the disk, so that there is nothing to spread. */
function fitsOneRun(candidates: Candidates, sizeBytes: number): boolean {
  for (const { hostId, largestBytes } of candidates.byLargest()) {
    if (largestBytes < sizeBytes) return false;
    return candidates.freeDevicesOf(hostId).left[0]?.slices !== undefined;
  }
  return false;
}

/** Returns as much of the spaces as a disk of that size takes, in their order. */
function allFitted(spaces: readonly Space[], neededBytes: number): readonly Space[] {
  let restBytes = neededBytes;
  return spaces.flatMap((space) => {
    if (restBytes <= 0 && space.slices !== undefined) return [];
    const taken = fitted(space, restBytes);
    restBytes -= taken.sizeBytes;
    return taken;
  });
}

/** Maximum hosts compared among those that can hold the whole disk. Bounds the work in a large fleet. */
const FITTING_HOSTS_COMPARED = 16;

function pack(candidates: Candidates, sizeBytes: number, maxDevices: number): readonly Space[] | undefined {
  const { near } = candidates;
  let best: Choice | undefined;
  let bestRoomBytes = 0;
  let fitting = 0;
  for (const hostId of hostsWith(candidates, sizeBytes, maxDevices)) {
    const { left } = candidates.freeDevicesOf(hostId);
    const choice = cheapest(left, sizeBytes, maxDevices);
    if (choice === undefined) continue;
    // Takes the first of equal choices of whole devices. Among equal choices of slices, takes the near host's, or else
    // that of the host with the most free bytes.
    const isOfSlices = choice.devices.some(({ slices }) => slices !== undefined);
    const roomBytes = !isOfSlices ? 0 : hostId === near?.hostId ? Number.POSITIVE_INFINITY : totalBytes(left);
    const isBetter = best === undefined || choice.cost < best.cost;
    if (isBetter || (choice.cost === best?.cost && roomBytes > bestRoomBytes))
      [best, bestRoomBytes] = [choice, roomBytes];
    // No choice costs less than the disk's size.
    if (best?.cost === sizeBytes || ++fitting === FITTING_HOSTS_COMPARED) break;
  }
  return best === undefined ? fill(candidates, sizeBytes, maxDevices) : best.devices;
}

/**
 * Returns each host that may hold all bytes: the near host, then those with the most free devices. When few of these
 * have enough bytes, those with the most bytes follow.
 */
function* hostsWith(candidates: Candidates, neededBytes: number, maxDevices: number): Generator<HostId> {
  const { near } = candidates;
  const returned = new Set<HostId>();
  if (near !== undefined) yield near.hostId;
  const mayHold = ({ hostId, totalBytes, largestBytes }: FreeSpace): boolean =>
    Math.min(totalBytes, largestBytes * maxDevices) >= neededBytes && hostId !== near?.hostId && !returned.has(hostId);
  for (const { totalBytes } of candidates.byTotal()) {
    if (totalBytes < neededBytes) return;
    break;
  }
  let read = 0;
  for (const space of candidates.byCount()) {
    if (mayHold(space)) {
      returned.add(space.hostId);
      yield space.hostId;
    }
    if (++read === MAX_HOSTS_READ) break;
  }
  for (const space of candidates.byTotal()) {
    if (space.totalBytes < neededBytes) return;
    if (mayHold(space)) yield space.hostId;
  }
}

interface Choice {
  readonly devices: readonly Space[];
  readonly cost: number;
}

/**
 * Returns the cheapest choice of devices on one host. The cost is the wasted space, plus the disk's size for each
 * device and each path beyond the first. So two small devices are cheaper than a single device of ten times the size,
 * and one large device is cheaper than ten small ones.
 */
function cheapest(devices: readonly Space[], neededBytes: number, maxDevices: number): Choice | undefined {
  const onOnePath = [...byPath(devices).values()].filter(
    (onPath) => onPath.length > 1 && onPath.length < devices.length,
  );
  let best: Choice | undefined;
  for (const from of [...onOnePath, devices]) {
    for (let count = 1; count <= Math.min(maxDevices, from.length); count++) {
      if (best !== undefined && count * neededBytes >= best.cost) break;
      const chosen = coverWith(from, neededBytes, count);
      if (chosen === undefined) continue;
      const cost = totalBytes(allFitted(chosen, neededBytes)) + (count + byPath(chosen).size - 2) * neededBytes;
      if (best === undefined || cost < best.cost) best = { devices: chosen, cost };
    }
  }
  return best;
}

function byPath(devices: readonly Space[]): ReadonlyMap<string, readonly Space[]> {
  const paths = new Map<string, Space[]>();
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
function coverWith(devices: readonly Space[], neededBytes: number, count: number): readonly Space[] | undefined {
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
