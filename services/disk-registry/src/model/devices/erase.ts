import type { DeviceId } from "@diskmesh/domain";
import { withLabel } from "../store/label-due.js";
import { eraseSessionOf, runToErase, withErased, withEraseSession } from "../store/runs.js";
import { type Device, type Host, isErasable, type RegistryTables, type RegistryTransaction } from "../store/schema.js";
import { type ByteRange, orderedBytes } from "../store/slices.js";
import { nextSessionNumber } from "./counters.js";
import { whyNotTold } from "./orders.js";

export interface EraseOrder {
  readonly host: Host;
  readonly deviceId: DeviceId;
  readonly sessionNumber: number;
  /** Bytes to erase; size 0 for all bytes of the device. */
  readonly range: ByteRange;
  /** The device has slices, so that its agent is to forget the run once that is erased. */
  readonly isForgotten: boolean;
}

/** Returns the device and its host if the device can be erased now. */
function findErasable(tables: RegistryTables, deviceId: DeviceId): { device: Device; host: Host } | undefined {
  const device = tables.devices.get(deviceId);
  if (device === undefined || !isErasable(device)) return undefined;
  const host = tables.hosts.get(device.hostId);
  return host === undefined || whyNotTold(host) !== undefined ? undefined : { device, host };
}

/** Returns the host of a device that can be erased now. */
export function hostToErase(tables: RegistryTables, deviceId: DeviceId): Host | undefined {
  return findErasable(tables, deviceId)?.host;
}

/**
 * Returns the erase order of the device, with its own session, which fences off every earlier writer. A repeated call
 * returns the same session. Returns undefined when there is nothing to erase.
 */
export function beginErase(tx: RegistryTransaction, deviceId: DeviceId): EraseOrder | undefined {
  const found = findErasable(tx, deviceId);
  if (found === undefined) return undefined;
  const { device, host } = found;
  const [given, run] = [eraseSessionOf(device), runToErase(device)];
  if (run === undefined) return undefined;
  const order = { host, deviceId, range: orderedBytes(device, run), isForgotten: device.sliceBytes !== undefined };
  if (given !== 0) return { ...order, sessionNumber: given };
  const sessionNumber = nextSessionNumber(tx);
  tx.devices.put({ ...withEraseSession(device, sessionNumber), lastSessionNumber: sessionNumber });
  return { ...order, sessionNumber };
}

/** Frees the erased bytes, unless the device changed since the erase got its session. */
export function completeErase(tx: RegistryTransaction, deviceId: DeviceId, sessionNumber: number): boolean {
  const device = tx.devices.get(deviceId);
  if (device === undefined || eraseSessionOf(device) !== sessionNumber) return false;
  const lastError = isOfOrder(device) ? device.lastError : "";
  const isWhole = runToErase(device)?.count === undefined;
  tx.devices.put({ ...withErased(isWhole ? withLabel(device) : device, sessionNumber), lastError });
  return true;
}

/**
 * Drops the erase's session, so that the next try takes a new one, because the agent has seen a higher session or can
 * no longer write in this one. Records the reason like `recordEraseFailure`.
 */
export function abandonEraseSession(
  tx: RegistryTransaction,
  deviceId: DeviceId,
  sessionNumber: number,
  error: string,
): void {
  recordEraseFailure(tx, deviceId, sessionNumber, error);
  const device = tx.devices.get(deviceId);
  if (device !== undefined && eraseSessionOf(device) === sessionNumber) tx.devices.put(withEraseSession(device, 0));
}

/**
 * Records the error of the last erase for callers that wait for the device. Keeps the error of an attach or detach
 * order that is failing.
 */
export function recordEraseFailure(
  tx: RegistryTransaction,
  deviceId: DeviceId,
  sessionNumber: number,
  error: string,
): void {
  const device = tx.devices.get(deviceId);
  if (device === undefined || eraseSessionOf(device) !== sessionNumber || isOfOrder(device)) return;
  const lastError = `erase: ${error}`;
  if (device.lastError !== lastError) tx.devices.put({ ...device, lastError });
}

/**
 * Returns whether `lastError` is the error of an attach or detach order. The order worker clears such an error when the
 * order succeeds.
 */
function isOfOrder(device: Device): boolean {
  return device.attempts > 0;
}
