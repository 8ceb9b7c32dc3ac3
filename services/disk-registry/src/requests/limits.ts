import type { Config } from "../config.js";
import type { DiskLimits } from "../model/disks.js";
import type { EventLimits } from "../model/events.js";
import type { HostLimits } from "../model/registration.js";
import type { RemovalLimits } from "../model/remove-action.js";

const DAY_MS = 86_400_000;

/** What the model needs of the config. */
export function removalLimits({ unavailableRemovalTimeoutMs, retryAfter }: Config): RemovalLimits {
  return {
    unavailableRemovalTimeoutMs,
    closingRetryAfterMs: retryAfter.closingMs,
    erasingRetryAfterMs: retryAfter.erasingMs,
    waitingRetryAfterMs: retryAfter.waitingMs,
    maxWaitingRetryAfterMs: retryAfter.maxWaitingMs,
  };
}

export function hostLimits({ limits, heartbeat, serialNumbersOfMany }: Config): HostLimits {
  const { probationMs } = heartbeat;
  return { maxHosts: limits.maxHosts, probationMs, sharedSerialNumbers: serialNumbersOfMany };
}

export function eventLimits({ events }: Pick<Config, "events">): EventLimits {
  const { maxCount, maxRoutineCount, maxAgeDays } = events;
  return { maxCount, maxRoutineCount, maxAgeMs: maxAgeDays * DAY_MS };
}

export function diskLimits({ limits, retryAfter }: Config): DiskLimits {
  return {
    maxDisks: limits.maxDisks,
    maxDevicesPerDisk: limits.maxDevicesPerDisk,
    erasingRetryAfterMs: retryAfter.erasingMs,
  };
}
