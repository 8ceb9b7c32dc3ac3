import type { DirectorConfig } from "../config/config.js";
import type { DirectorLimits } from "../config/limits.js";
import { lockDeadlineMs } from "../config/time-limits.js";
import type { LockTimes, LockType } from "./locks.js";

/** Returns for each lock type the deadline of a lock without renewal and the maximum wait. */
export function lockTimes(config: DirectorConfig, limits: DirectorLimits): Readonly<Record<LockType, LockTimes>> {
  const { timeoutsMs } = limits.queues;
  const deadlineMs = lockDeadlineMs({ cpi: { ...config.cpi, ...limits.cpi }, agents: limits.agents });
  const acquireTimeoutMs = limits.lockAcquireTimeoutMs;
  // A lock's deadline is longer than the timeout of the task that holds the lock, so that the task's timeout applies
  // first.
  const ofTasks = (timeoutMs: number) => ({ deadlineMs: timeoutMs + deadlineMs, acquireTimeoutMs: timeoutMs });
  return {
    deployment: ofTasks(timeoutsMs.normal),
    stemcell: ofTasks(timeoutsMs.normal),
    instance: { deadlineMs, acquireTimeoutMs },
    host: { deadlineMs, acquireTimeoutMs },
    disk: { deadlineMs, acquireTimeoutMs },
    node: ofTasks(timeoutsMs.vendor_methods),
  };
}
