import type { DirectorConfig } from "../config/config.js";
import type { DirectorLimits } from "../config/limits.js";
import { lockDeadlineMs } from "../config/time-limits.js";
import type { LockTimes, LockType } from "./locks.js";

/** Returns how long locks of each type may be held without a sign of life, and waited for. */
export function lockTimes(config: DirectorConfig, limits: DirectorLimits): Readonly<Record<LockType, LockTimes>> {
  const { timeoutsMs } = limits.queues;
  const deadlineMs = lockDeadlineMs({ cpi: { ...config.cpi, ...limits.cpi }, agents: limits.agents });
  const acquireTimeoutMs = limits.lockAcquireTimeoutMs;
  // The timeout of their owner's task comes first.
  const ofTasks = (timeoutMs: number) => ({ deadlineMs: timeoutMs + deadlineMs, acquireTimeoutMs: timeoutMs });
  return {
    deployment: ofTasks(timeoutsMs.normal),
    stemcell: ofTasks(timeoutsMs.normal),
    instance: { deadlineMs, acquireTimeoutMs },
    disk: { deadlineMs, acquireTimeoutMs },
    node: ofTasks(timeoutsMs.vendor_methods),
  };
}
