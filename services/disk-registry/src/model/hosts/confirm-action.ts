import { InvalidStateError } from "@diskmesh/domain";
import { type ActionResult, actionResult, named } from "../devices/action-result.js";
import { advance } from "../devices/attach-states.js";
import { withReportedHealth } from "../devices/device-health.js";
import { type DeviceSelector, requireDevices } from "../devices/device-selection.js";
import { awaitsConfirmation, isLabelLost, whyReplaced } from "../devices/replaced.js";
import { distrusted } from "../devices/reported-devices.js";
import { type SharedSerialNumbers, sharersIn, whyRefused } from "../devices/same-bytes.js";
import { identityOf } from "../identity/hardware.js";
import { isLabelRead } from "../store/device-label.js";
import type { Device, RegistryTransaction } from "../store/schema.js";

/**
 * Records that the hardware found in the devices' places is the devices' own, with their data, as an operator states.
 * Confirms all the devices or none.
 */
export function confirmDevice(
  tx: RegistryTransaction,
  selector: DeviceSelector,
  { nowMs, shared }: { readonly nowMs: number; readonly shared: SharedSerialNumbers },
): ActionResult {
  const devices = requireDevices(tx, selector);
  const names = named(devices.map(({ deviceId }) => deviceId));
  const replaced = devices.filter((device) => device.replacement !== undefined || isLabelLost(device));
  if (replaced.length === 0) return actionResult("S_ALREADY", `none of ${names} waits for a confirmation`);
  for (const device of replaced) {
    const about = { device_id: device.deviceId };
    const { replacement } = device;
    if (replacement !== undefined && !awaitsConfirmation(device)) {
      const why = whyReplaced({ ...device, replacement });
      throw new InvalidStateError(`device ${device.deviceId} cannot be confirmed: ${why}`, { about });
    }
    const refused = whyRefused(sharersIn(tx, shared), asConfirmed(device, nowMs));
    if (refused !== undefined) throw new InvalidStateError(refused, { about });
  }
  for (const device of replaced) {
    const confirmed = asConfirmed(device, nowMs);
    const isWanted = device.attachState === "ATTACHING" || device.attachState === "ATTACHED";
    // A new generation causes a new order, which carries the confirmed identity to the agent.
    tx.devices.put(isWanted ? advance(tx, confirmed, "replacement_accepted", nowMs) : confirmed);
  }
  return actionResult("S_OK", `confirmed: ${named(replaced.map(({ deviceId }) => deviceId))}`);
}

/** Returns the device with the hardware found in its place. Its contents stay as they are known. */
function asConfirmed({ replacement, ...device }: Device, nowMs: number): Device {
  const isLost = isLabelLost({ ...device, ...(replacement && { replacement }) });
  // Only AddDevice accepts the grown size.
  const { sizeBytes, label, ...rest } = device;
  // A label that was not found is written again.
  const kept = label !== undefined && (!isLabelRead(device.labelState) || device.labelState === "VALID") && { label };
  const confirmed = { ...rest, ...kept, ...(replacement && identityOf(replacement)), sizeBytes };
  const well = withReportedHealth(confirmed, { health: "ONLINE", healthMessage: "" }, nowMs);
  // The overwriting program may have written to free slices, too.
  return isLost ? distrusted(well) : well;
}
