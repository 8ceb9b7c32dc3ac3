import { bytesText, countText, type DeviceId } from "@diskmesh/domain";
import { labelDue } from "../store/label-due.js";
import { isDirty } from "../store/runs.js";
import { type Device, isHeld, type Pending } from "../store/schema.js";
import { bytesByUse } from "../store/slices.js";
import { type ActionResult, named, tryAgain } from "./action-result.js";
import { pendingText } from "./pending.js";

/** State of a device's erase; kept in memory only. */
export interface EraseState {
  /** Overwritten bytes, as the agent last reported. */
  readonly erasedBytes: number;
  /** Failed tries since the last success. */
  readonly failedTries: number;
  /** Cause of the wait that the agent last reported; undefined when it did not wait. */
  readonly pending?: Pending | undefined;
}

export interface EraseLimits {
  /** `retry_after` in ms while devices are being erased. */
  readonly erasingRetryAfterMs: number;
  /** `retry_after` in ms while disks block the removal, a device cannot be erased, or a host is UNAVAILABLE. */
  readonly waitingRetryAfterMs: number;
}

/** Source of the state of erases, which is kept in memory only. */
export interface EraseWatch {
  readonly limits: EraseLimits;
  readonly eraseState: (device: Device) => EraseState;
  readonly nowMs: number;
}

/** Minimum duration of a wait that is reported; a normal write is shorter. */
const PENDING_TO_TELL_MS = 5_000;

/** Number of failed tries from which an erase is reported as failing. Its retries continue. */
const FAILED_TRIES_TO_TELL = 3;

/**
 * Returns whether the device must be erased before it leaves: it holds a former user's data or its label, and keep_data is
 * not set.
 */
export function mustBeErased(device: Device): boolean {
  const isToErase = isDirty(device) || labelDue({ ...device, removalRequested: true }) === "remove";
  return isHeld(device) && isToErase && !device.keepData;
}

/**
 * Returns the progress of the erases that a removal waits for, with the names of devices whose erase needs an operator.
 */
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
  const bytesToErase = devices.reduce((sum, device) => sum + bytesByUse(device).dirty, 0);
  const bytesErased = devices.reduce((sum, device) => sum + eraseState(device).erasedBytes, 0);
  const parts: string[] = [];
  const done =
    bytesToErase === 0 ? "only labels are left" : `${bytesText(bytesErased)} of ${bytesText(bytesToErase)} are done`;
  if (going > 0) parts.push(`${countText(going, "device is", "devices are")} being erased, ${done}`);
  if (failing !== undefined) parts.push(`last error, of device ${failing.deviceId}: ${failing.lastError}`);
  if (waiting.length > 0) parts.push(`waits for: ${named(waiting)}`);
  if (stuck.length > 0)
    parts.push(
      `${countText(stuck.length, "device")} cannot be erased: ${named(stuck)}: repair them, or remove them with their data by RemoveDevice with keep_data`,
    );
  const retryAfterMs = going > 0 ? limits.erasingRetryAfterMs : limits.waitingRetryAfterMs;
  const erase = bytesToErase === 0 ? {} : { erase: { bytesToErase, bytesErased } };
  return { ...tryAgain(`${name}: ${parts.join("; ")}`, retryAfterMs), ...erase };
}

function faultOf(device: Device, { failedTries }: EraseState): string | undefined {
  if (device.unknownSession !== undefined) return "held by an unknown disk: see DecideUnknownDisks";
  if (device.health === "ERROR") return `ERROR: ${device.healthMessage}`;
  if (device.attachState === "ATTACHING" && device.attempts >= FAILED_TRIES_TO_TELL)
    return `not attached: ${device.lastError}`;
  return failedTries >= FAILED_TRIES_TO_TELL ? device.lastError : undefined;
}

/** Returns the devices that leave without an erase: they hold data or unknown contents. */
export function unerasedIn(devices: readonly Device[]): readonly DeviceId[] {
  return devices.filter((device) => device.runs.length > 0).map((device) => device.deviceId);
}

export function unerasedNote(deviceIds: readonly DeviceId[]): string {
  return deviceIds.length === 0 ? "" : `; not erased, so they still have their data: ${named(deviceIds)}`;
}
