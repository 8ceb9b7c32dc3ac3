import { bytesText, countText, type HostId } from "@diskmesh/domain";
import { named } from "../devices/action-result.js";
import { allDevices, countingDevices } from "../store/layout.js";
import { holds, holdsAnyDisk, isDirty } from "../store/runs.js";
import type { Device, DiskRequest, Host, RegistryTables } from "../store/schema.js";
import { type Space, sizesOn, spacesOf, spacesOnceErased } from "../store/slices.js";
import { allocate } from "./allocation.js";
import type { AllocationLimits } from "./candidates.js";
import { MoveTurns } from "./move-turns.js";
import type { Moving } from "./moves.js";
import { whyNotPlaceable } from "./placement.js";
import { chooseWhole, isWhole } from "./whole-target.js";

/** Hosts that are read for the explanation of a failed choice. */
const EXPLAINED_HOSTS = 1_000;

/** Inputs of the choice that are not in the tables. */
export interface TargetChoice extends Pick<AllocationLimits, "draw" | "mayYetBeHeard"> {
  readonly whySuspected: (hostId: HostId) => string | undefined;
  readonly nowMs: number;
  /** Maximum parts of a disk. */
  readonly maxParts: number;
}

export type ChosenTarget = { readonly spaces: readonly Space[] } | { readonly why: string; readonly isShort: boolean };

/**
 * Chooses free space for a part: of the disk's pool and az, with no larger blocks, and where the disk spreads over racks
 * in a rack without another part if there is one. Prefers one run, then an empty device, then several runs of one host.
 */
export function chooseTarget(tables: RegistryTables, moving: Moving, choice: TargetChoice): ChosenTarget {
  const turns = new MoveTurns(tables);
  const whyNotYet = turns.whyNotYet(moving);
  if (whyNotYet !== undefined) return { why: `its turn: ${whyNotYet}`, isShort: false };
  const { hostId: sourceHostId } = moving.source;
  const excluded = (hostId: HostId): string | undefined => {
    if (moving.move.elsewhere && hostId === sourceHostId) return "has the part now";
    return turns.whyFull(hostId, moving.sizeBytes) ?? choice.whySuspected(hostId);
  };
  const racks = racksOfOthers(tables, moving);
  const apart = (hostId: HostId): string | undefined =>
    racks.has(tables.hosts.get(hostId)?.rack ?? "") ? "has a rack of another part" : excluded(hostId);
  for (const whySuspected of racks.size > 0 ? [apart, excluded] : [excluded]) {
    const [request, limits] = [requestOf(moving), { ...limitsOf(tables, moving, choice), whySuspected }];
    const allocation = allocate(tables, request, limits);
    if ("spaces" in allocation) return allocation;
    const whole = isWhole(moving) ? chooseWhole(tables, request, limits) : undefined;
    if (whole !== undefined) return { spaces: [whole] };
    const spaces = chooseSeveral(tables, moving, request, { ...limits, maxDevices: mostParts(tables, moving, choice) });
    if (spaces !== undefined) return { spaces };
  }
  return { why: whyNowhere(tables, moving, excluded, choice.nowMs), isShort: true };
}

/** Returns the number of parts into which the part may be split. A holder that knows no slices knows no such parts. */
function mostParts({ hosts }: RegistryTables, { disk }: Moving, { maxParts }: TargetChoice): number {
  const { publication } = disk;
  if (publication !== undefined && hosts.get(publication.hostId)?.slices === undefined) return 1;
  return Math.max(1, maxParts - disk.parts.length + 1);
}

/** Returns free space of one host that has room for the part once it is split; undefined where no host has enough. */
function chooseSeveral(
  tables: RegistryTables,
  { sizeBytes }: Moving,
  request: DiskRequest,
  limits: AllocationLimits,
): readonly Space[] | undefined {
  const allocation = allocate(tables, request, limits);
  if ("shortage" in allocation) return undefined;
  const { spaces } = allocation;
  const isOnOneHost = spaces.every(({ hostId }) => hostId === spaces[0]?.hostId);
  return isOnOneHost && totalOf(sizesOn(spaces, sizeBytes)) === sizeBytes ? spaces : undefined;
}

const totalOf = (sizes: readonly number[]): number => sizes.reduce((sum, sizeBytes) => sum + sizeBytes, 0);

/** Chooses a target for the first of the parts that finds one; else says why the first part finds none. */
export function chooseAnyTarget(
  tables: RegistryTables,
  parts: readonly [Moving, ...Moving[]],
  choice: TargetChoice,
): { readonly moving: Moving; readonly spaces: readonly Space[] } | Extract<ChosenTarget, { readonly why: string }> {
  const [first, ...others] = parts;
  const chosen = chooseTarget(tables, first, choice);
  if ("spaces" in chosen) return { moving: first, ...chosen };
  const needsOf = ({ move, source, sizeBytes }: Moving) =>
    `${sizeBytes} ${move.toHostId} ${move.elsewhere} ${source.hostId}`;
  const tried = new Set([needsOf(first)]);
  for (const moving of others) {
    if (tried.has(needsOf(moving))) continue;
    tried.add(needsOf(moving));
    const other = chooseTarget(tables, moving, choice);
    if ("spaces" in other) return { moving, ...other };
  }
  return chosen;
}

function requestOf({ disk, move, sizeBytes }: Moving): DiskRequest {
  const { pool } = disk.requested;
  return { sizeBytes, az: disk.az, hostId: move.toHostId ?? "", pool, spreadRacks: false };
}

function limitsOf(tables: RegistryTables, moving: Moving, { draw, mayYetBeHeard }: TargetChoice): AllocationLimits {
  const { disk } = moving;
  return {
    maxDevices: 1,
    maxBlockSizeBytes: disk.blockSizeBytes,
    named: new Set(allDevices(disk).filter((deviceId) => !mayTake(tables.devices.get(deviceId), moving))),
    nearHostId: disk.publication?.hostId ?? "",
    draw,
    ...(mayYetBeHeard && { mayYetBeHeard }),
  };
}

/** Returns whether the part may move to a device that its disk names: one with another part, that was never purged. */
function mayTake(device: Device | undefined, { disk, source }: Moving): boolean {
  return device !== undefined && device.deviceId !== source.deviceId && holds(device, disk.diskId);
}

/** Returns the racks of a disk's other parts when the disk spreads over racks. */
function racksOfOthers(tables: RegistryTables, { disk, source }: Moving): ReadonlySet<string> {
  if (!disk.requested.spreadRacks) return new Set();
  const others = countingDevices(disk).filter((deviceId) => deviceId !== source.deviceId);
  const hosts = others.flatMap((deviceId) => tables.hosts.get(tables.devices.get(deviceId)?.hostId ?? "") ?? []);
  return new Set(hosts.map(({ rack }) => rack));
}

/** Returns the rule that excludes each host, and the smallest change that would help. */
function whyNowhere(
  tables: RegistryTables,
  moving: Moving,
  excluded: (hostId: HostId) => string | undefined,
  nowMs: number,
): string {
  const { disk, move, sizeBytes } = moving;
  const { pool } = disk.requested;
  const rules: string[] = [];
  let [erasing, closed] = ["", ""];
  for (const host of hostsOf(tables, moving)) {
    const suitable = [...tables.devices.by("byHost", host.hostId)].filter((device) => isSuitable(device, moving));
    const rule = whyNotPlaceable(host, excluded, nowMs) ?? whyNoDevice(tables, host, moving);
    rules.push(`host ${host.hostId} ${rule}`);
    const dirty = suitable.find((device) => isDirty(device) && device.attachState === "ATTACHED");
    if (dirty !== undefined) erasing ||= `device ${dirty.deviceId} on host ${host.hostId}`;
    if (host.cordoned !== undefined && suitable.length > 0) closed ||= host.hostId;
  }
  const blocks = `with blocks of at most ${bytesText(disk.blockSizeBytes)}`;
  const where = move.toHostId === undefined ? `az ${disk.az}` : `host ${move.toHostId}`;
  const change =
    (erasing && `it goes on once ${erasing} is erased`) ||
    (closed &&
      `the smallest change: diskmesh set-host-state online ${closed}, since that host is cordoned and has room`) ||
    `the smallest change: add a device of at least ${bytesText(sizeBytes)} ${blocks} to pool ${pool} of ${where}`;
  return `space: no free device of ${bytesText(sizeBytes)} ${blocks} in pool ${pool} of ${where} (${named(rules)}); ${change}`;
}

function hostsOf(tables: RegistryTables, { disk, move }: Moving): readonly Host[] {
  if (move.toHostId !== undefined) return [tables.hosts.get(move.toHostId) ?? []].flat();
  const hosts: Host[] = [];
  for (const host of tables.hosts.by("byAz", disk.az)) {
    hosts.push(host);
    if (hosts.length === EXPLAINED_HOSTS) break;
  }
  return hosts;
}

/** Returns whether the device would do once it is clean. */
function isSuitable(device: Device, moving: Moving): boolean {
  const { deviceId, pool, health, removalRequested, blockSizeBytes } = device;
  const { disk, sizeBytes } = moving;
  if (allDevices(disk).includes(deviceId) && !mayTake(device, moving)) return false;
  const isUsable = health === "ONLINE" && !removalRequested && device.unknownSession === undefined;
  const isEmpty = isWhole(moving) && !holdsAnyDisk(device) && device.sizeBytes >= sizeBytes;
  const hasRoom = isEmpty || spacesOnceErased(device).some((space) => space.sizeBytes >= sizeBytes);
  return isUsable && hasRoom && pool === disk.requested.pool && blockSizeBytes <= disk.blockSizeBytes;
}

function whyNoDevice(tables: RegistryTables, { hostId }: Host, { disk }: Moving): string {
  const { pool } = disk.requested;
  const free = [...tables.devices.by("freeByHost", hostId)].filter((device) => device.pool === pool);
  if (free.length === 0) return "has no free device";
  const largestBytes = Math.max(0, ...free.flatMap(spacesOf).map(({ sizeBytes }) => sizeBytes));
  const large = free.every(({ blockSizeBytes }) => blockSizeBytes > disk.blockSizeBytes)
    ? ", all with larger blocks"
    : "";
  return `has ${countText(free.length, "free device")}, the largest of ${bytesText(largestBytes)}${large}`;
}
