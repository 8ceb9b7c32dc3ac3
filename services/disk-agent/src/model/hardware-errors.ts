import type { DeviceId } from "@diskmesh/domain";
import { type AgentMemory, type DeviceMemory, decideEach, withDevice } from "./memory.js";

/**
 * Minimum interval in ms between two stored times of a device's last error, so that a drive that fails all I/O causes
 * one write per interval.
 */
export const NOTED_EVERY_MS = 1_000;

/** A hardware error that the registry has not received yet. */
export interface KeptError {
  readonly message: string;
  /**
   * Time of the last stored occurrence by the agent's wall clock; later ones came within `NOTED_EVERY_MS`. Undefined in
   * caches of the previous release.
   */
  readonly notedAtMs: number | undefined;
}

/**
 * Returns the memory with the error. The message of the first unreported error is kept, and the time of the last one.
 */
export function withHardwareError(
  memory: AgentMemory,
  deviceId: DeviceId,
  message: string,
  nowMs: number,
): AgentMemory {
  const { hardwareError = message, hardwareErrorAtMs } = memory.devices.get(deviceId) ?? {};
  const sinceMs = nowMs - (hardwareErrorAtMs ?? Number.NEGATIVE_INFINITY);
  // A negative value means that the clock was set back; the new time is stored then.
  if (sinceMs >= 0 && sinceMs < NOTED_EVERY_MS) return memory;
  // The cache format accepts neither fractions nor times before 1970.
  return withDevice(memory, deviceId, { hardwareError, hardwareErrorAtMs: Math.max(0, Math.floor(nowMs)) });
}

/** Returns the unreported errors by device. */
export function hardwareErrors({ devices }: AgentMemory): ReadonlyMap<DeviceId, KeptError> {
  const errors = new Map<DeviceId, KeptError>();
  for (const [deviceId, { hardwareError, hardwareErrorAtMs }] of devices)
    if (hardwareError !== undefined) errors.set(deviceId, { message: hardwareError, notedAtMs: hardwareErrorAtMs });
  return errors;
}

/**
 * Returns the minimum time in ms since the last occurrence of an error that an earlier run of the agent stored; 0 when
 * unknown.
 */
export function ageOf({ notedAtMs = Number.POSITIVE_INFINITY }: KeptError, nowMs: number): number {
  return Math.max(0, Math.floor(nowMs - notedAtMs - NOTED_EVERY_MS));
}

/** Returns the memory without errors that the registry has acknowledged. */
export function withoutHardwareErrors(
  memory: AgentMemory,
  told: ReadonlyMap<DeviceId, Pick<KeptError, "message">>,
): AgentMemory {
  const nothing: DeviceMemory = { hardwareError: undefined, hardwareErrorAtMs: undefined };
  const forget = (before: AgentMemory, [deviceId, { message }]: readonly [DeviceId, Pick<KeptError, "message">]) => {
    const isSame = before.devices.get(deviceId)?.hardwareError === message;
    return { memory: isSame ? withDevice(before, deviceId, nothing) : before, verdict: isSame };
  };
  return decideEach(memory, [...told], forget).memory;
}
