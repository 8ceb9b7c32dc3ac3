import type { DeviceId } from "@diskmesh/domain";

/** Requests that are not answered. */
export interface OpenSince {
  readonly count: number;
  /** Monotonic time in ms of the oldest request; undefined when none is open. */
  readonly oldestSinceMs: number | undefined;
}

/** Requests of a disk's users that are not answered, and what holds up the oldest one. */
export interface IoQueue {
  readonly openRequests: number;
  /** Whole milliseconds, as the wire carries them. */
  readonly oldestAgeMs: number;
  readonly throttledRequests: number;
  /** Device that has not answered the oldest request. */
  readonly waitsForDeviceId?: DeviceId;
  /** Path of the block device that has not passed the oldest request on. */
  readonly waitsForBlockDevice?: string;
}

/** Returns the queue of a disk whose every request the agent sees. */
export function queueOfRequests(
  all: OpenSince & { readonly isOldestThrottled: boolean; readonly throttledCount: number },
  devices: Iterable<OpenSince & { readonly deviceId: DeviceId }>,
  nowMs: number,
): IoQueue {
  const queue = { ...ageOf(all, nowMs), throttledRequests: all.throttledCount };
  const slowest = all.isOldestThrottled ? undefined : oldestOf(devices);
  return slowest === undefined ? queue : { ...queue, waitsForDeviceId: slowest.deviceId };
}

/**
 * Returns the queue of a block device. `below` is the queue of the disk under it: what holds up a request there also holds
 * up the block device. A request that the disk has not got yet is held up by the block device.
 */
export function queueOfBlockDevice(
  path: string,
  kernel: OpenSince,
  below: IoQueue | undefined,
  nowMs: number,
): IoQueue | undefined {
  if (kernel.count === 0) return below;
  const own = ageOf(kernel, nowMs);
  if (below === undefined || below.openRequests === 0)
    return { ...own, throttledRequests: 0, waitsForBlockDevice: path };
  return { ...below, openRequests: own.openRequests, oldestAgeMs: Math.max(own.oldestAgeMs, below.oldestAgeMs) };
}

/** Returns the queue of a block device of the kernel that lies on devices of this host. */
export function queueOnDevices(
  path: string,
  kernel: OpenSince,
  devices: Iterable<OpenSince & { readonly deviceId: DeviceId }>,
  nowMs: number,
): IoQueue {
  const own = { ...ageOf(kernel, nowMs), throttledRequests: 0 };
  if (kernel.count === 0) return own;
  const slowest = oldestOf(devices);
  return slowest === undefined ? { ...own, waitsForBlockDevice: path } : { ...own, waitsForDeviceId: slowest.deviceId };
}

function ageOf({ count, oldestSinceMs }: OpenSince, nowMs: number): Pick<IoQueue, "openRequests" | "oldestAgeMs"> {
  return { openRequests: count, oldestAgeMs: Math.max(0, Math.floor(nowMs - (oldestSinceMs ?? nowMs))) };
}

function oldestOf<Each extends OpenSince>(all: Iterable<Each>): Each | undefined {
  let oldest: Each | undefined;
  for (const each of all)
    if (each.oldestSinceMs !== undefined && each.oldestSinceMs < (oldest?.oldestSinceMs ?? Number.POSITIVE_INFINITY))
      oldest = each;
  return oldest;
}
