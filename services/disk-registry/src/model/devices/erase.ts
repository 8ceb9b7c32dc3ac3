import type { DeviceId } from "@diskmesh/domain";
import { type Device, type Host, isErasable, type RegistryTables, type RegistryTransaction } from "../store/schema.js";
import { nextSessionNumber } from "./counters.js";
import { whyNotTold } from "./orders.js";

export interface EraseOrder {
  readonly host: Host;
  readonly deviceId: DeviceId;
  readonly sessionNumber: number;
}

/** The device to erase and its host, if it can be erased now. */
function findErasable(tables: RegistryTables, deviceId: DeviceId): { device: Device; host: Host } | undefined {
  const device = tables.devices.get(deviceId);
  if (device === undefined || !isErasable(device)) return undefined;
  const host = tables.hosts.get(device.hostId);
  return host === undefined || whyNotTold(host) !== undefined ? undefined : { device, host };
}

/** The host of a device that can be erased now. */
export function hostToErase(tables: RegistryTables, deviceId: DeviceId): Host | undefined {
  return findErasable(tables, deviceId)?.host;
}

/** Gives the erase its own session, once: every writer before it is fenced off. Undefined when there is nothing to erase. */
export function beginErase(tx: RegistryTransaction, deviceId: DeviceId): EraseOrder | undefined {
  const found = findErasable(tx, deviceId);
  if (found === undefined) return undefined;
  const { device, host } = found;
  if (device.eraseSessionNumber !== 0) return { host, deviceId, sessionNumber: device.eraseSessionNumber };
  const sessionNumber = nextSessionNumber(tx);
  tx.devices.put({ ...device, eraseSessionNumber: sessionNumber, lastSessionNumber: sessionNumber });
  return { host, deviceId, sessionNumber };
}

/** Every byte is zero: the device is clean, unless something else happened to it since that session was given. */
export function completeErase(tx: RegistryTransaction, deviceId: DeviceId, sessionNumber: number): boolean {
  const device = tx.devices.get(deviceId);
  if (device === undefined || device.eraseSessionNumber !== sessionNumber || device.diskId !== "") return false;
  const lastError = isOfOrder(device) ? device.lastError : "";
  tx.devices.put({ ...device, dirty: false, eraseSessionNumber: 0, lastError });
  return true;
}

/**
 * The agent has seen a higher session, or cannot put any more of this one onto the device: the next try takes a new one.
 * Keeps why, as `recordEraseFailure`.
 */
export function abandonEraseSession(
  tx: RegistryTransaction,
  deviceId: DeviceId,
  sessionNumber: number,
  error: string,
): void {
  recordEraseFailure(tx, deviceId, sessionNumber, error);
  const device = tx.devices.get(deviceId);
  if (device?.eraseSessionNumber === sessionNumber) tx.devices.put({ ...device, eraseSessionNumber: 0 });
}

/** Keeps what the last try met, for whoever waits for the device, unless an order to it fails as well. */
export function recordEraseFailure(
  tx: RegistryTransaction,
  deviceId: DeviceId,
  sessionNumber: number,
  error: string,
): void {
  const device = tx.devices.get(deviceId);
  if (device?.eraseSessionNumber !== sessionNumber || isOfOrder(device)) return;
  const lastError = `erase: ${error}`;
  if (device.lastError !== lastError) tx.devices.put({ ...device, lastError });
}

/** Whether the last error is that of an order, which is tried until it succeeds; else it is that of an erase. */
function isOfOrder(device: Device): boolean {
  return device.attempts > 0;
}
