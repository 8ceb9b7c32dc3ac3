import type { DeviceId, HostId } from "@diskmesh/domain";
import { keptCopies } from "./adding.js";
import { type CopiedDisk, type CopiedPart, copyOf, devicesIn } from "./copied-disk.js";

/** A device that may get a copy. */
interface Candidate {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly rack: string;
}

export interface RepairFacts {
  /** Devices without bytes that anybody needs, of hosts that are heard and steady, in the order of preference. */
  readonly free: readonly Candidate[];
  /** Where any device is, also one that is not free. */
  readonly placeOf: (deviceId: DeviceId) => { readonly hostId: HostId; readonly rack: string };
  /** Returns whether the device's host is heard and steady, and the device itself is no trouble. */
  readonly isFit: (deviceId: DeviceId) => boolean;
  /** Most copies that may be filled at once in the whole fleet. */
  readonly limit: number;
}

export interface Repair {
  readonly disk: CopiedDisk;
  readonly part: number;
  readonly deviceId: DeviceId;
}

/**
 * Returns the copies that are to be filled next, within the limit of the fleet. Parts with the fewest copies come
 * first. Two copies of a part are never on one host, and on one rack only when no other has room. Drops that are due
 * must be decided before.
 */
export function planRepairs(
  disks: readonly CopiedDisk[],
  { free, placeOf, isFit, limit }: RepairFacts,
): readonly Repair[] {
  const running = disks.flatMap(({ parts }) => parts).reduce((sum, part) => sum + comingTo(part, isFit).length, 0);
  const due = disks
    .flatMap((disk) => disk.parts.map((part, index) => ({ disk, part, index })))
    .filter(
      ({ disk, part }) =>
        !disk.isUnproven && keptCopies(part).length + comingTo(part, isFit).length < disk.copiesWished,
    )
    .sort((a, b) => keptCopies(a.part).length - keptCopies(b.part).length);
  const taken = new Set<DeviceId>();
  const repairs: Repair[] = [];
  for (const { disk, part, index } of due) {
    if (running + repairs.length >= limit) break;
    const deviceId = targetFor(
      part,
      placeOf,
      free.filter((each) => !taken.has(each.deviceId)),
      isFit,
    );
    if (deviceId === undefined) continue;
    taken.add(deviceId);
    repairs.push({ disk, part: index, deviceId });
  }
  return repairs;
}

/** Returns the copies that are being filled, or will be. */
function comingTo(part: CopiedPart, isFit: RepairFacts["isFit"]): readonly DeviceId[] {
  return [...devicesIn(part, "COPYING"), ...devicesIn(part, "RESYNC")].filter(isFit);
}

/** Returns the device for another copy: one that was dropped and is fit again, or a free one elsewhere. */
function targetFor(
  part: CopiedPart,
  placeOf: RepairFacts["placeOf"],
  free: readonly Candidate[],
  isFit: RepairFacts["isFit"],
): DeviceId | undefined {
  const others = part.copies
    .filter(({ state, deviceId }) => state !== "DROPPED" && deviceId !== part.moveFrom)
    .map(({ deviceId }) => placeOf(deviceId));
  const isElsewhere = ({ hostId }: { hostId: HostId }): boolean => others.every((each) => each.hostId !== hostId);
  const back = devicesIn(part, "DROPPED").find(
    (deviceId) => deviceId !== part.moveFrom && isFit(deviceId) && isElsewhere(placeOf(deviceId)),
  );
  if (back !== undefined) return back;
  const elsewhere = free.filter((each) => isElsewhere(each) && copyOf(part, each.deviceId) === undefined);
  const otherRack = elsewhere.find(({ rack }) => others.every((each) => each.rack !== rack));
  return (otherRack ?? elsewhere[0])?.deviceId;
}

/**
 * Returns a counting copy that one host would lose together with another one; undefined for none. A restore in the
 * middle of a move within a host leaves such copies, and no record says that one of them was to leave.
 */
export function misplacedCopy(part: CopiedPart, hostOf: (deviceId: DeviceId) => HostId): DeviceId | undefined {
  const counting = keptCopies(part);
  return counting.find((deviceId, index) =>
    counting.slice(0, index).some((other) => hostOf(other) === hostOf(deviceId)),
  );
}

/** Bytes of a host that are used by copies, and those that are free. */
export interface HostSpace {
  readonly hostId: HostId;
  readonly usedBytes: bigint;
  readonly freeBytes: bigint;
}

/**
 * Returns the bytes that a new disk may take: what is free, without the room to fill elsewhere all copies of the host
 * that has most of them.
 */
export function bytesToGive(hosts: readonly HostSpace[]): bigint {
  let least: bigint | undefined;
  const free = hosts.reduce((sum, { freeBytes }) => sum + freeBytes, 0n);
  for (const { usedBytes, freeBytes } of hosts) {
    const left = free - freeBytes - usedBytes;
    if (least === undefined || left < least) least = left;
  }
  return least === undefined || least < 0n ? 0n : least;
}
