/** Time limits of the config that depend on each other. */
export interface TimeLimits {
  readonly cpi: { readonly callTimeoutMs: number; readonly retryTimeoutMs: number };
  readonly agents: {
    readonly requestTimeoutMs: number;
    readonly readyTimeoutMs: number;
    readonly attachTimeoutMs: number;
    readonly detachTimeoutMs: number;
  };
  readonly stemcells: { readonly createTimeoutMs: number };
  readonly locks: { readonly deadlineMs?: number | undefined };
  readonly queues: { readonly normal: QueueLimits; readonly dynamicDisks: QueueLimits };
}

interface QueueLimits {
  readonly taskTimeoutMs: number;
}

const LOCK_MARGIN_MS = 60_000;

/**
 * The longest that a task may do one thing between two points at which it could stop: a CPI call, begun again at the end
 * of its time for repetitions after the dispatcher had to be told the cpi-config, or one request to an agent.
 */
function longestActMs({ cpi, agents }: TimeLimits): number {
  return Math.max(
    cpi.retryTimeoutMs + 2 * cpi.callTimeoutMs,
    agents.requestTimeoutMs,
    agents.attachTimeoutMs,
    agents.detachTimeoutMs,
  );
}

/** How long after the last sign of life of its owner a lock is overdue. */
export function lockDeadlineMs(limits: TimeLimits): number {
  return limits.locks.deadlineMs ?? longestActMs(limits) + LOCK_MARGIN_MS;
}

/** What of the limits would end work that is still within its own limit. */
export function contradictions(limits: TimeLimits): { readonly path: string[]; readonly message: string }[] {
  const { locks, queues, agents, stemcells } = limits;
  const actMs = longestActMs(limits);
  const act = `a CPI call or a request to an agent may take ${actMs} ms (cpi.retryTimeoutMs + 2 * cpi.callTimeoutMs, agents.*TimeoutMs)`;
  const found: { readonly path: string[]; readonly message: string }[] = [];
  const check = (path: string[], limitMs: number, neededMs: number, why: string) => {
    if (limitMs <= neededMs) found.push({ path, message: `must be above ${neededMs}: ${why}` });
  };
  if (locks.deadlineMs !== undefined)
    check(["locks", "deadlineMs"], locks.deadlineMs, actMs, `${act}; leave it out to have it follow from these`);
  check(["queues", "dynamicDisks", "taskTimeoutMs"], queues.dynamicDisks.taskTimeoutMs, actMs, act);
  const path = ["queues", "normal", "taskTimeoutMs"];
  const normal = queues.normal.taskTimeoutMs;
  check(path, normal, actMs, act);
  check(path, normal, agents.readyTimeoutMs, "an agent may take agents.readyTimeoutMs to answer");
  check(path, normal, stemcells.createTimeoutMs, "a CPI may take stemcells.createTimeoutMs to make a stemcell");
  return found;
}
