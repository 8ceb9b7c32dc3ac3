import type { DirectorConfig } from "./config.js";
import type { LockTimes, LockType } from "./model/locks.js";
import type { TaskQueue } from "./model/task.js";
import { lockDeadlineMs } from "./model/time-limits.js";

type OfQueues = Readonly<Record<TaskQueue, number>>;

/** What the config says of each queue of tasks. */
export interface QueueLimits {
  readonly workers: OfQueues;
  readonly queueLengths: OfQueues;
  readonly timeoutsMs: OfQueues;
}

export function queueLimits(config: DirectorConfig): QueueLimits {
  return {
    workers: byQueue(config, ({ workers }) => workers),
    queueLengths: byQueue(config, ({ maxTasks }) => maxTasks),
    timeoutsMs: byQueue(config, ({ taskTimeoutMs }) => taskTimeoutMs),
  };
}

/** How long locks of each type may be held without a sign of life, and waited for. */
export function lockTimes(config: DirectorConfig): Readonly<Record<LockType, LockTimes>> {
  const { timeoutsMs } = queueLimits(config);
  const deadlineMs = lockDeadlineMs(config);
  const { acquireTimeoutMs } = config.locks;
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

/** Config keys are camel case, names of queues are BOSH's. */
function byQueue(
  { queues }: DirectorConfig,
  limitOf: (queue: DirectorConfig["queues"]["normal"]) => number,
): Readonly<Record<TaskQueue, number>> {
  const { urgent, normal, dynamicDisks, vendorMethods } = queues;
  return {
    urgent: limitOf(urgent),
    normal: limitOf(normal),
    dynamic_disks: limitOf(dynamicDisks),
    vendor_methods: limitOf(vendorMethods),
  };
}
