import type { Extent } from "@diskmesh/api/internal";
import { type HostId, UnavailableError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { whyNotTold } from "../model/devices/orders.js";
import {
  type CoveredRuns,
  type MirrorTarget,
  type PlannedExtent,
  recordedRuns,
  type SessionGroup,
  type SessionPlan,
} from "../model/disks/session-plan.js";
import { countingCopy } from "../model/store/layout.js";
import type { Host } from "../model/store/schema.js";
import { placeOf, type Reached } from "./session-grant.js";

/**
 * Abort reason of the timer once the host has answered. abort() without a reason would create an error with a stack
 * each time.
 */
const OVER = "the host has said it";

const OPERATIONS = { PUBLISHING: "publish", PUBLISHED: "change", UNPUBLISHING: "unpublish" } as const;

/** Returns the name of the plan's operation in metrics. */
export function operationOf({ publication }: SessionPlan) {
  return OPERATIONS[publication.state];
}

/** Returns the host that is to serve the disk. Throws UnavailableError while the host or a device cannot be asked. */
export function requireTarget({ blocked, publication, target }: SessionPlan): Host {
  if (blocked !== undefined) throw new UnavailableError(blocked);
  if (target === undefined) throw new UnavailableError(`host ${publication.hostId} was purged`);
  const whyNot = whyNotTold(target);
  if (whyNot !== undefined) throw new UnavailableError(whyNot);
  return target;
}

/** Returns whether the session's holder is another host than this one. */
export function isElsewhere({ holderHostId }: SessionPlan, { hostId }: Host): boolean {
  return holderHostId !== "" && holderHostId !== hostId;
}

/** Returns the disk's runs that are on its target host. */
export function runsOfTarget(plan: SessionPlan): CoveredRuns {
  const { groups, target } = plan;
  return recordedRuns(plan, groups.find(({ host }) => host.hostId === target?.hostId)?.devices ?? []);
}

/** Returns the groups without the devices that have granted the session. */
export function without(groups: readonly SessionGroup[], granted: ReadonlySet<string>): SessionGroup[] {
  const left = groups.map(({ host, devices }) => ({
    host,
    devices: devices.filter(({ deviceId }) => !granted.has(deviceId)),
  }));
  return left.filter(({ devices }) => devices.length > 0);
}

/** Returns the source of a move, with its host; undefined when it cannot be asked. */
export function groupOfSource({ disk, groups }: SessionPlan, { index }: MirrorTarget): SessionGroup | undefined {
  const part = disk.parts[index];
  const sourceId = part && countingCopy(part).deviceId;
  for (const { host, devices } of groups)
    for (const device of devices) if (device.deviceId === sourceId) return { host, devices: [device] };
  return undefined;
}

/**
 * Returns the session of an added run, and what reaches a run that has just been asked for its session. The holder keeps
 * the key of any other: its agent has no key of a later leader.
 */
export function accessTo(
  { publication }: SessionPlan,
  { deviceId, hostId, ...extent }: Omit<PlannedExtent, "target">,
  addresses: Reached,
  keyOf: (hostId: HostId, sessionNumber: number) => Buffer,
): Partial<Extent> {
  const { sessionNumber = publication.sessionNumber } = extent;
  const blockAddress = hostId === publication.hostId ? undefined : addresses.get(placeOf(deviceId, sessionNumber));
  return {
    sessionNumber: sessionNumber === publication.sessionNumber ? 0 : sessionNumber,
    ...(blockAddress !== undefined && { blockAddress, sessionKey: keyOf(hostId, sessionNumber) }),
  };
}

/** Returns the answer, or false after `timeMs`. */
export async function within(clock: Pick<Clock, "sleep">, timeMs: number, told: Promise<boolean>): Promise<boolean> {
  const timer = new AbortController();
  const timeIsUp = clock.sleep(timeMs, timer.signal).then(
    () => false,
    () => false,
  );
  const isTold = await Promise.race([told, timeIsUp]);
  timer.abort(OVER);
  return isTold;
}
