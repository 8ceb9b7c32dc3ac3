import type { HostId } from "@diskmesh/domain";
import { allDevices } from "../store/layout.js";
import {
  type Device,
  type Disk,
  type DiskRequest,
  type Host,
  isClosed,
  isComing,
  isErasable,
  isOverridden,
  type RegistryTables,
} from "../store/schema.js";
import { isCrowded, type Space, spacesOnceErased } from "../store/slices.js";
import { type AllocationLimits, Candidates, freeOf, largestDevices, largestFirst, totalBytes } from "./candidates.js";
import { isPlaceable, NOBODY_SUSPECTED } from "./placement.js";

/** Free space when an allocation failed, and space that becomes free soon. */
export interface Shortage {
  /** Free bytes of the largest spaces, up to the maximum number of parts of a disk. */
  readonly usableBytes: number;
  /** Largest part for which there is room; absent when no device with slices has room. */
  readonly largestRunBytes?: number | undefined;
  /** Number of devices with free slices that have as many runs as a device may; absent for none. */
  readonly crowdedDevices?: number | undefined;
  readonly erasingDevices: number;
  /**
   * Devices that are being attached, and those of the largest free devices that are on suspected hosts. A suspected
   * host is soon either heard again or UNAVAILABLE.
   */
  readonly comingDevices: number;
  /** True when the free and the coming devices together may hold the disk. */
  readonly sufficesSoon: boolean;
  /**
   * UNAVAILABLE hosts that may still be heard and whose devices may hold the rest of the disk. Empty when
   * `sufficesSoon`.
   */
  readonly awaitedHostIds: readonly HostId[];
  /**
   * Numbers of free devices that are not used, because an unknown disk holds them, or because an operator overrode
   * their health.
   */
  readonly blocked: { readonly heldByUnknownDisk: number; readonly saidUnwell: number };
}

/**
 * Maximum devices of each kind, and hosts, that a refusal reads, so that its cost does not grow with the fleet. Its
 * numbers are no larger. Where there are more, they may hold the disk, and the caller may try again.
 */
const [MAX_DEVICES, MAX_HOSTS] = [2_048, 1_024];

/** Returns why an allocation failed. */
export function shortageOf(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): Shortage {
  const { maxDevices, mayYetBeHeard = () => false, whySuspected = NOBODY_SUSPECTED } = limits;
  const mayHold = (spaces: readonly Space[]): boolean =>
    totalBytes(largestFirst(spaces).slice(0, Math.max(0, maxDevices))) >= request.sizeBytes;
  const free = largestFree(tables, request, limits);
  const largest = largestFree(tables, request, { ...limits, whySuspected: NOBODY_SUSPECTED });
  const largestRun = free.find(({ slices }) => slices !== undefined);
  const crowded = inPool(tables, request, "crowdedByPool", isCrowded).devices.filter(isUp);
  const suspected = largest.filter(({ hostId }) => whySuspected(hostId) !== undefined);
  const coming = comingDevices(tables, request, limits);
  const onPlaceable = coming.devices.filter(({ hostId }) => {
    const host = tables.hosts.get(hostId);
    return host !== undefined && isPlaceable(host, NOBODY_SUSPECTED);
  });
  const erasingDevices = onPlaceable.filter(isErasable).length;
  const soon = [...onPlaceable.flatMap(spacesOnceErased), ...suspected];
  const sufficesSoon = coming.more || (soon.length > 0 && mayHold([...free, ...soon]));
  const awaited = sufficesSoon ? [] : awaitedHosts(tables, request, mayYetBeHeard);
  const isAwaited = new Set(awaited.map(({ hostId }) => hostId));
  const sufficesOnceHeard = () => {
    const onAwaited = coming.devices.filter(({ hostId }) => isAwaited.has(hostId)).flatMap(spacesOnceErased);
    const freeOnAwaited = awaited.flatMap(({ hostId }) => freeOf(tables, hostId, request, limits));
    return mayHold([...free, ...soon, ...onAwaited, ...freeOnAwaited]);
  };
  return {
    usableBytes: totalBytes(free),
    ...(largestRun !== undefined && { largestRunBytes: largestRun.sizeBytes }),
    ...(crowded.length > 0 && { crowdedDevices: crowded.length }),
    erasingDevices,
    comingDevices: onPlaceable.length + suspected.length - erasingDevices,
    sufficesSoon,
    awaitedHostIds: awaited.length === MAX_HOSTS || sufficesOnceHeard() ? [...isAwaited] : [],
    blocked: blockedOn(tables, request),
  };
}

/**
 * Returns a function that says whether a disk may fit once these disks, of the given ones, are erased, with what is being
 * erased or attached already.
 */
export function oncePurged(
  tables: RegistryTables,
  request: DiskRequest,
  limits: AllocationLimits,
  disks: readonly Disk[],
): (purged: readonly Disk[]) => boolean {
  const { maxDevices, maxBlockSizeBytes = Number.POSITIVE_INFINITY, whySuspected = NOBODY_SUSPECTED } = limits;
  const named = new Set(limits.named);
  const isUsable = (device: Device | undefined): device is Device => {
    if (device === undefined || device.blockSizeBytes > maxBlockSizeBytes || named.has(device.deviceId)) return false;
    const host = tables.hosts.get(device.hostId);
    const isMeant = request.hostId === "" ? host?.az === request.az : host?.hostId === request.hostId;
    const isWell = isUp(device) && device.unknownSession === undefined && !device.removalRequested;
    return isWell && device.pool === request.pool && isMeant && host !== undefined && isPlaceable(host, whySuspected);
  };
  const ofDisks = new Set(disks.flatMap(allDevices));
  const coming = comingDevices(tables, request, limits).devices.filter(({ hostId }) => {
    const host = tables.hosts.get(hostId);
    return host !== undefined && isPlaceable(host, whySuspected);
  });
  const changing = [...ofDisks].map((deviceId) => tables.devices.get(deviceId)).filter(isUsable);
  const others = coming.filter(({ deviceId }) => !ofDisks.has(deviceId));
  for (const { deviceId } of [...changing, ...others]) named.add(deviceId);
  const steady = [...largestFree(tables, request, { ...limits, named }), ...others.flatMap(spacesOnceErased)];
  return (purged) => {
    const diskIds = new Set<string>(purged.map(({ diskId }) => diskId));
    const left = (device: Device): Device => ({
      ...device,
      runs: device.runs.filter((run) => !diskIds.has(run.diskId)),
    });
    const spaces = [...steady, ...changing.flatMap((device) => spacesOnceErased(left(device)))];
    return totalBytes(largestFirst(spaces).slice(0, Math.max(0, maxDevices))) >= request.sizeBytes;
  };
}

const isUp = ({ attachState, health }: Device): boolean => attachState === "ATTACHED" && health === "ONLINE";

/** Returns the largest free spaces, up to the maximum number of parts of a disk. */
function largestFree(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): readonly Space[] {
  return largestDevices(new Candidates(tables, request, limits), Number.POSITIVE_INFINITY, limits.maxDevices);
}

interface Found {
  readonly devices: readonly Device[];
  /** True when there may be more such devices. */
  readonly more: boolean;
}

/** Returns devices that are being erased or attached, and then suit the request. */
function comingDevices(
  tables: RegistryTables,
  request: DiskRequest,
  { maxBlockSizeBytes = Number.POSITIVE_INFINITY, named }: AllocationLimits,
): Found {
  const { devices, more } = inPool(tables, request, "comingByPool", isComing);
  const fits = ({ deviceId, blockSizeBytes }: Device): boolean =>
    blockSizeBytes <= maxBlockSizeBytes && named?.has(deviceId) !== true;
  return { devices: devices.filter(fits), more };
}

function blockedOn(tables: RegistryTables, request: DiskRequest): Shortage["blocked"] {
  const { devices } = inPool(tables, request, "overriddenByPool", isOverridden);
  const heldByUnknownDisk = devices.filter(({ unknownSession }) => unknownSession !== undefined).length;
  return { heldByUnknownDisk, saidUnwell: devices.length - heldByUnknownDisk };
}

/** Returns the devices of an index on the hosts that the request allows. */
function inPool(
  { devices, hosts }: RegistryTables,
  request: DiskRequest,
  index: "comingByPool" | "overriddenByPool" | "crowdedByPool",
  isListed: (device: Device) => boolean,
): Found {
  const { hostId, pool } = request;
  if (hostId !== "") {
    const onHost = [...devices.by("byHost", hostId)].filter((device) => device.pool === pool && isListed(device));
    return { devices: onHost, more: false };
  }
  const read = [...devices.by(index, pool, { limit: MAX_DEVICES })];
  return {
    devices: read.filter((device) => hosts.get(device.hostId)?.az === request.az),
    more: read.length === MAX_DEVICES,
  };
}

/** Returns hosts that may be placeable once their agents have registered. */
function awaitedHosts(
  { hosts }: RegistryTables,
  { hostId, az }: DiskRequest,
  mayYetBeHeard: (hostId: HostId) => boolean,
): readonly Host[] {
  const found =
    hostId === "" ? [...hosts.by("awaitedByAz", az, { limit: MAX_HOSTS })] : [hosts.get(hostId) ?? []].flat();
  return found.filter((host) => {
    const { hostId, state, mustRegister } = host;
    if (host.removalRequested || isClosed(host) || state === "DEAD") return false;
    return state === "UNAVAILABLE" ? mayYetBeHeard(hostId) : mustRegister === true;
  });
}
