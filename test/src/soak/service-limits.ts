/** Shorter than by default, so that more comes to its end within a soak: laid over the configs of the services. */

const DAY_MS = 24 * 3_600_000;

export const registryLimits = {
  heartbeat: { intervalMs: 500, timeoutMs: 5_000, probationMs: 500 },
  orders: { backoff: { minDelayMs: 50, maxDelayMs: 1_000 } },
  publications: { backoff: { minDelayMs: 50, maxDelayMs: 1_000 } },
  erase: { backoff: { minDelayMs: 50, maxDelayMs: 1_000 } },
  // Never within a soak: what is DETACHED was let go of by its agent.
  unavailableRemovalTimeoutMs: DAY_MS,
};

export const directorLimits = {
  dynamicDisks: { enabled: true },
  cpi: { callTimeoutMs: 60_000, retryTimeoutMs: 20_000 },
  agents: {
    requestTimeoutMs: 10_000,
    readyTimeoutMs: 60_000,
    lostAfterMs: 30_000,
    attachTimeoutMs: 20_000,
    detachTimeoutMs: 5_000,
  },
};

export const agentLimits = {
  discovery: { rescanIntervalMs: 5_000 },
  probes: { intervalMs: 2_000, warningAfterMs: 1_000, errorAfterMs: 5_000 },
};
