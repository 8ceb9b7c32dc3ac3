import type { Config } from "../config/config.js";
import type { RegistryLimits } from "../config/limits.js";
import type { SliceSizes } from "../model/devices/division.js";
import type { DiskLimits } from "../model/disks/disks.js";
import type { EventLimits } from "../model/events/events.js";
import type { HostLimits } from "../model/hosts/registration.js";
import type { RemovalLimits } from "../model/hosts/remove-action.js";

const DAY_MS = 86_400_000;

interface Settings {
  readonly config: Config;
  readonly limits: RegistryLimits;
}

/** Returns the limits of a removal from the config and the constants. */
export function removalLimits({ config, limits }: Settings): RemovalLimits {
  return { ...limits, unavailableRemovalTimeoutMs: config.unavailableRemovalTimeoutMs };
}

export function hostLimits({ config, limits }: Settings): HostLimits {
  const { heartbeat, serialNumbersOfMany } = config;
  return {
    maxHosts: limits.maxHosts,
    probationMs: heartbeat.probationMs,
    sharedSerialNumbers: serialNumbersOfMany,
    sliceSizes: sliceSizes(config),
  };
}

/** Returns the slice sizes of pools from the config. */
export function sliceSizes({ pools }: Pick<Config, "pools">): SliceSizes {
  return new Map(Object.entries(pools).map(([name, { sliceBytes }]) => [name, sliceBytes]));
}

/** Returns the limits of disks from the config and the constants. */
export function diskLimits({ config, limits }: Settings): DiskLimits {
  return { ...limits, keepsRepairRoom: (pool) => poolConfig(config, pool)?.keepRepairRoom ?? false };
}

function poolConfig({ pools }: Pick<Config, "pools">, pool: string): Config["pools"][string] | undefined {
  return Object.hasOwn(pools, pool) ? pools[pool] : undefined;
}

/** Returns the time in ms for which a pool's deleted disks are kept. */
export function graceMsOf(config: Pick<Config, "pools">, pool: string): number {
  return poolConfig(config, pool)?.deleteGraceMs ?? 0;
}

export function eventLimits({ events }: Pick<Config, "events">): EventLimits {
  return { maxCount: events.maxCount, maxAgeMs: events.maxAgeDays * DAY_MS };
}
