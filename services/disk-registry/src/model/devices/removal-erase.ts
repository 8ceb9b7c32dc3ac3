import { countText, type DeviceId } from "@diskmesh/domain";
import type { Device, Pending } from "../store/schema.js";
import { type ActionResult, named, tryAgain } from "./action-result.js";
import { pendingText } from "./pending.js";

/** How a device's erase goes; known in memory only. */
export interface EraseState {
  /** Overwritten so far, as its agent said last. */
  readonly erasedBytes: number;
  /** Tries that failed since one succeeded. */
  readonly failedTries: number;
  /** What its agent waited for when it was last asked; undefined when for nothing. */
  readonly pending?: Pending | undefined;
}

export interface EraseLimits {
  /** When to ask again while devices are erased. */
  readonly erasingRetryAfterMs: number;
  /** When to ask again while disks are in the way, a device cannot be erased, or a host is UNAVAILABLE. */
  readonly waitingRetryAfterMs: number;
}

/** What is known beside the tables of the erases that a removal waits for. */
export interface EraseWatch {
  readonly limits: EraseLimits;
  readonly eraseState: (device: Device) => EraseState;
  readonly nowMs: number;
}

/** A write that takes so long is not one of many. */
const PENDING_TO_TELL_MS = 5_000;

/** So many failed tries are no accident. Trying goes on all the same. */
const FAILED_TRIES_TO_TELL = 3;

/** Whether the device may not leave yet: a former user's data is on it, and nobody said that it may stay there. */
export function mustBeErased(device: Device): boolean {
  const isHeld = device.attachState === "ATTACHING" || device.attachState === "ATTACHED";
  return isHeld && device.dirty && !device.keepData;
}

/** How far the erases are that a removal waits for, and which of them will not come to an end by themselves. */
export function whileErasing(name: string, devices: readonly Device[], call: EraseWatch): ActionResult {
  const { limits, eraseState } = call;
  const stuck: string[] = [];
  const waiting: string[] = [];
  let going = 0;
  let failing: Device | undefined;
  for (const device of devices) {
    const state = eraseState(device);
    const fault = faultOf(device, state);
    if (state.pending !== undefined && call.nowMs - state.pending.sinceMs >= PENDING_TO_TELL_MS)
      waiting.push(pendingText(state.pending, call.nowMs));
    if (fault !== undefined) stuck.push(`${device.deviceId} (${fault})`);
    else {
      going++;
      if (device.lastError !== "") failing ??= device;
    }
  }
  const bytesToErase = devices.reduce((sum, device) => sum + device.sizeBytes, 0);
  const bytesErased = devices.reduce((sum, device) => sum + eraseState(device).erasedBytes, 0);
  const parts: string[] = [];
  if (going > 0)
    parts.push(
      `${countText(going, "device is", "devices are")} being erased, ${bytesErased} of ${bytesToErase} bytes are done`,
    );
  if (failing !== undefined) parts.push(`last error, of device ${failing.deviceId}: ${failing.lastError}`);
  if (waiting.length > 0) parts.push(`waits for: ${named(waiting)}`);
  if (stuck.length > 0)
    parts.push(
      `${countText(stuck.length, "device")} cannot be erased: ${named(stuck)}: mend them, or take them out with what is on them by RemoveDevice with keep_data`,
    );
  const retryAfterMs = going > 0 ? limits.erasingRetryAfterMs : limits.waitingRetryAfterMs;
  return { ...tryAgain(`${name}: ${parts.join("; ")}`, retryAfterMs), erase: { bytesToErase, bytesErased } };
}

function faultOf(device: Device, { failedTries }: EraseState): string | undefined {
  if (device.unknownSession !== undefined) return "held by an unknown disk: see DecideUnknownDisks";
  if (device.health === "ERROR") return `ERROR: ${device.healthMessage}`;
  if (device.attachState === "ATTACHING" && device.attempts >= FAILED_TRIES_TO_TELL)
    return `not attached: ${device.lastError}`;
  return failedTries >= FAILED_TRIES_TO_TELL ? device.lastError : undefined;
}

/** Those that leave with something on them, or of which nobody knows. */
export function unerasedIn(devices: readonly Device[]): readonly DeviceId[] {
  return devices.filter((device) => device.dirty || device.diskId !== "").map((device) => device.deviceId);
}

export function unerasedNote(deviceIds: readonly DeviceId[]): string {
  return deviceIds.length === 0 ? "" : `; not erased, and what was on them still is: ${named(deviceIds)}`;
}
