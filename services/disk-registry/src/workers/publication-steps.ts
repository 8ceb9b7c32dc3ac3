import { UnavailableError } from "@diskmesh/domain";
import { whyNotTold } from "../model/devices/orders.js";
import { type CoveredRuns, recordedRuns, type SessionGroup, type SessionPlan } from "../model/disks/session-plan.js";
import type { Host } from "../model/store/schema.js";

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
