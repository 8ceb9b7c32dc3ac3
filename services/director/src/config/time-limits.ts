/** Time limits of what a task does between two points at which it could stop. */
interface ActTimes {
  readonly cpi: { readonly callTimeoutMs: number; readonly retryTimeoutMs: number };
  readonly agents: {
    readonly requestTimeoutMs: number;
    readonly attachTimeoutMs: number;
    readonly detachTimeoutMs: number;
  };
}

const LOCK_MARGIN_MS = 60_000;

/**
 * Returns the longest time between two points at which a task could stop: a CPI call, begun again at the end of its time
 * for repetitions after the dispatcher had to be told the cpi-config, or one request to an agent.
 */
export function longestActMs({ cpi, agents }: ActTimes): number {
  return Math.max(
    cpi.retryTimeoutMs + 2 * cpi.callTimeoutMs,
    agents.requestTimeoutMs,
    agents.attachTimeoutMs,
    agents.detachTimeoutMs,
  );
}

/** Returns how long after the last sign of life of its owner a lock is overdue. */
export function lockDeadlineMs(times: ActTimes): number {
  return longestActMs(times) + LOCK_MARGIN_MS;
}
