/** Shorter limits than the defaults, so that timeouts pass within a soak. Merged over the configs of the services. */

const DAY_MS = 24 * 3_600_000;

export const registryLimits = {
  heartbeat: { intervalMs: 500, timeoutMs: 5_000, probationMs: 500 },
  // Longer than a soak, so that every DETACHED device was closed by its agent.
  unavailableRemovalTimeoutMs: DAY_MS,
};

export const directorLimits = {
  dynamicDisks: { enabled: true },
  cpi: { callTimeoutMs: 60_000 },
  agents: { readyTimeoutMs: 60_000 },
  tuning: {
    cpi: { retryTimeoutMs: 20_000 },
    agents: { requestTimeoutMs: 10_000, lostAfterMs: 30_000, attachTimeoutMs: 20_000, detachTimeoutMs: 5_000 },
  },
};
