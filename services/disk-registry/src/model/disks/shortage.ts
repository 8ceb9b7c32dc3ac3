import type { HostId } from "@diskmesh/domain";
import type { Device, DiskRequest, Host, RegistryTables } from "../store/schema.js";
import { type AllocationLimits, Candidates, freeOf, largestDevices, largestFirst, totalBytes } from "./candidates.js";
import { isPlaceable, NOBODY_SUSPECTED } from "./placement.js";

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

/** Returns why an allocation failed. Looks at every host that the request allows. */
export function shortageOf(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): Shortage {
  const { mayYetBeHeard = () => false, maxDevices } = limits;
  const all = hostsOf(tables, request);
  const awaited = all.filter((host) => isAwaited(host, mayYetBeHeard));
  const { freeBytes, largestFree, suspectedFree } = freeSpaceNow(tables, request, limits);
  const being = (some: readonly Host[]): { readonly erased: readonly Device[]; readonly attached: readonly Device[] } =>
    comingOn(tables, some, request, limits);
  const { erased, attached } = being(all.filter((host) => isPlaceable(host, NOBODY_SUSPECTED)));
  const coming = [...attached, ...suspectedFree];
  const soon = [...erased, ...coming];
  const usableBytes = (devices: readonly Device[]): number =>
    totalBytes(largestFirst(devices).slice(0, Math.max(0, maxDevices)));
  const sufficesSoon = soon.length > 0 && usableBytes([...largestFree, ...soon]) >= request.sizeBytes;
  const once = being(awaited);
  const freeOnAwaited = awaited.flatMap(({ hostId }) => freeOf(tables, hostId, request, limits));
  const onceHeard = [...largestFree, ...soon, ...freeOnAwaited, ...once.erased, ...once.attached];
  const sufficesOnceHeard = !sufficesSoon && usableBytes(onceHeard) >= request.sizeBytes;
  return {
    freeBytes,
    usableBytes: totalBytes(largestFree),
    erasingDevices: erased.length,
    comingDevices: coming.length,
    sufficesSoon,
    awaitedHostIds: sufficesOnceHeard ? awaited.map(({ hostId }) => hostId) : [],
    blocked: blockedOn(tables, all, request),
  };
}

interface FreeNow {
  readonly freeBytes: number;
  /** Largest free devices, up to the maximum number of devices of a disk. */
  readonly largestFree: readonly Device[];
  /** Free devices on suspected hosts, which the other fields lack. */
  readonly suspectedFree: readonly Device[];
}

function freeSpaceNow(tables: RegistryTables, request: DiskRequest, limits: AllocationLimits): FreeNow {
  const { whySuspected = NOBODY_SUSPECTED, maxBlockSizeBytes } = limits;
  const suspectedFree: Device[] = [];
  let freeBytes = 0;
  for (const space of new Candidates(tables, request, { ...limits, whySuspected: NOBODY_SUSPECTED }).byTotal()) {
    if (whySuspected(space.hostId) !== undefined) suspectedFree.push(...freeOf(tables, space.hostId, request, limits));
    else if (maxBlockSizeBytes === undefined) freeBytes += space.totalBytes;
    else freeBytes += totalBytes(freeOf(tables, space.hostId, request, limits));
  }
  const candidates = new Candidates(tables, request, limits);
  const largestFree = largestDevices(candidates, Number.POSITIVE_INFINITY, limits.maxDevices);
  return { freeBytes, largestFree, suspectedFree };
}

/** Returns the devices of the hosts that are being erased or attached, and then suit the request. */
function comingOn(
  tables: RegistryTables,
  hosts: readonly Host[],
  request: DiskRequest,
  { maxBlockSizeBytes = Number.POSITIVE_INFINITY, named }: AllocationLimits,
): { readonly erased: readonly Device[]; readonly attached: readonly Device[] } {
  const fits = ({ deviceId, pool, health, diskId, removalRequested, blockSizeBytes }: Device): boolean =>
    pool === request.pool &&
    health === "ONLINE" &&
    diskId === "" &&
    !removalRequested &&
    blockSizeBytes <= maxBlockSizeBytes &&
    named?.has(deviceId) !== true;
  const erased = listed(tables, hosts, "erasableByHost").filter(fits);
  const ordered = listed(tables, hosts, "awaitingOrderByHost").filter(fits);
  return { erased, attached: ordered.filter(({ attachState }) => attachState === "ATTACHING") };
}

function listed(
  { devices }: RegistryTables,
  hosts: readonly Host[],
  index: "erasableByHost" | "awaitingOrderByHost" | "overriddenByHost",
): readonly Device[] {
  // The count is much cheaper than the start of an iteration, and most hosts have none.
  const some = hosts.filter(({ hostId }) => devices.count(index, hostId) > 0);
  return some.flatMap(({ hostId }) => [...devices.by(index, hostId)]);
}

function blockedOn(tables: RegistryTables, hosts: readonly Host[], { pool }: DiskRequest): Shortage["blocked"] {
  const ofPool = listed(tables, hosts, "overriddenByHost").filter((device) => device.pool === pool);
  const heldByUnknownDisk = ofPool.filter(({ unknownSession }) => unknownSession !== undefined).length;
  return { heldByUnknownDisk, saidUnwell: ofPool.length - heldByUnknownDisk };
}

/** Returns all hosts that the request allows, in any state. */
function hostsOf(tables: RegistryTables, { hostId, az }: DiskRequest): readonly Host[] {
  const hosts = hostId === "" ? [...tables.hosts.by("byAz", az)] : [tables.hosts.get(hostId)];
  return hosts.filter((host) => host !== undefined && (az === "" || host.az === az)) as Host[];
}

/** Returns whether the host may be placeable once its agent has registered. */
function isAwaited(host: Host, mayYetBeHeard: (hostId: HostId) => boolean): boolean {
  if (host.removalRequested || host.cordoned !== undefined || host.state === "DEAD") return false;
  return host.state === "UNAVAILABLE" ? mayYetBeHeard(host.hostId) : host.mustRegister === true;
}
