/** Time limits of the actions of a task that cannot be interrupted. */
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
 * Returns the longest uninterruptible time of a task. The maximum is either one request to an agent or a CPI call:
 * retries for `retryTimeoutMs`, then two full calls, because the call starts again after the dispatcher received the
 * cpi-config.
 */
export function longestActMs({ cpi, agents }: ActTimes): number {
  return Math.max(
    cpi.retryTimeoutMs + 2 * cpi.callTimeoutMs,
    agents.requestTimeoutMs,
    agents.attachTimeoutMs,
    agents.detachTimeoutMs,
  );
}

/** Returns the time after the owner's last sign of life at which a lock is overdue. */
export function lockDeadlineMs(times: ActTimes): number {
  return longestActMs(times) + LOCK_MARGIN_MS;
}
