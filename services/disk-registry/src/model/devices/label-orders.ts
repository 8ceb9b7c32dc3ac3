import type { DeviceId } from "@diskmesh/domain";
import { labelDue, withLabel } from "../store/label-due.js";
import type { Device, Host, RegistryTables, RegistryTransaction } from "../store/schema.js";
import { headBytes } from "../store/slices.js";
import { nextSessionNumber } from "./counters.js";
import { whyNotTold } from "./orders.js";

/** Order to write or remove a device's label. */
export interface LabelOrder {
  readonly kind: "write" | "remove";
  readonly host: Host;
  readonly device: Device;
  readonly sessionNumber: number;
  /** Bytes that are kept for the label. */
  readonly sizeBytes: number;
}

/** Returns the host of a device whose label is to be written or removed now. */
export function hostToLabel(tables: RegistryTables, deviceId: DeviceId): Host | undefined {
  const device = tables.devices.get(deviceId);
  if (device === undefined || labelDue(device) === undefined) return undefined;
  const host = tables.hosts.get(device.hostId);
  return host === undefined || whyNotTold(host) !== undefined ? undefined : host;
}

/** Returns the order about the device's label, with a session of its own; undefined when none is due. */
export function beginLabel(tx: RegistryTransaction, deviceId: DeviceId): LabelOrder | undefined {
  const host = hostToLabel(tx, deviceId);
  const device = tx.devices.get(deviceId);
  const kind = device && labelDue(device);
  if (host === undefined || device === undefined || kind === undefined) return undefined;
  const sessionNumber = nextSessionNumber(tx);
  const ordered = { ...device, lastSessionNumber: sessionNumber };
  tx.devices.put(ordered);
  return { kind, host, device: ordered, sessionNumber, sizeBytes: headBytes(device.sliceBytes ?? 0) };
}

/** Returns whether the order is due as it was given, and no later session of the device has begun. */
export function isLabelDueStill(tables: RegistryTables, { kind, host, device, sessionNumber }: LabelOrder): boolean {
  const now = tables.devices.get(device.deviceId);
  if (now?.lastSessionNumber !== sessionNumber || labelDue(now) !== kind) return false;
  const isSameDevice = now.generation === device.generation && now.sliceBytes === device.sliceBytes;
  return isSameDevice && hostToLabel(tables, device.deviceId)?.bootId === host.bootId;
}

/**
 * Records that the agent has written the label, or removed it. Changes nothing when the answer is about a former start of
 * the agent, or when the device has changed meanwhile, so that another label is due.
 */
export function completeLabel(tx: RegistryTransaction, { kind, host, device }: LabelOrder, labelId: string): void {
  const now = tx.devices.get(device.deviceId);
  if (now === undefined || now.generation !== device.generation || now.sliceBytes !== device.sliceBytes) return;
  if (tx.hosts.get(now.hostId)?.bootId !== host.bootId) return;
  if (kind === "remove") tx.devices.put(withLabel(now));
  else if (labelDue({ ...now, removalRequested: false }) === "write") tx.devices.put(withLabel(now, labelId));
}
