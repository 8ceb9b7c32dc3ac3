import { UnavailableError } from "@diskmesh/domain";
import { whyNotTold } from "../model/devices/orders.js";
import type { SessionPlan } from "../model/disks/session-plan.js";
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
