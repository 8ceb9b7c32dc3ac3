import type { DeviceId } from "@diskmesh/domain";
import { type AgentMemory, type DeviceMemory, decideEach, withDevice } from "./memory.js";

/** How often the time of the last error is remembered anew: a drive that fails everything costs one write each time. */
export const NOTED_EVERY_MS = 1_000;

/** An error of the hardware that the registry was not told yet. */
export interface KeptError {
  readonly message: string;
  /** By the agent's clock: one that was met since was met within `NOTED_EVERY_MS`. Absent from the last release. */
  readonly notedAtMs: number | undefined;
}

/** The memory with an error that was met. The first one since the registry was told is kept, with the time of the last. */
export function withHardwareError(
  memory: AgentMemory,
  deviceId: DeviceId,
  message: string,
  nowMs: number,
): AgentMemory {
  const { hardwareError = message, hardwareErrorAtMs } = memory.devices.get(deviceId) ?? {};
  const sinceMs = nowMs - (hardwareErrorAtMs ?? Number.NEGATIVE_INFINITY);
  // Below 0 the clock was set back: what counts is the time by the clock as it is.
  if (sinceMs >= 0 && sinceMs < NOTED_EVERY_MS) return memory;
  // No fraction and nothing before 1970, which the cache would refuse.
  return withDevice(memory, deviceId, { hardwareError, hardwareErrorAtMs: Math.max(0, Math.floor(nowMs)) });
}

/** By device. */
export function hardwareErrors({ devices }: AgentMemory): ReadonlyMap<DeviceId, KeptError> {
  const errors = new Map<DeviceId, KeptError>();
  for (const [deviceId, { hardwareError, hardwareErrorAtMs }] of devices)
    if (hardwareError !== undefined) errors.set(deviceId, { message: hardwareError, notedAtMs: hardwareErrorAtMs });
  return errors;
}

/** How long ago, at least, the last error was met that an earlier life of the agent noted. Where nobody knows: just now. */
export function ageOf({ notedAtMs = Number.POSITIVE_INFINITY }: KeptError, nowMs: number): number {
  return Math.max(0, Math.floor(nowMs - notedAtMs - NOTED_EVERY_MS));
}

/** The registry was told of these. */
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
