import { InvalidStateError } from "@diskmesh/domain";
import type { Device, DeviceIdentity, RegistryTransaction } from "../store/schema.js";
import { type ActionResult, actionResult, named } from "./action-result.js";
import { advance } from "./attach-states.js";
import { withReportedHealth } from "./device-health.js";
import { type DeviceSelector, requireDevices } from "./device-selection.js";
import { isUnproven, whyReplaced } from "./reported-devices.js";
import { type SharedSerialNumbers, sharersIn, whyRefused } from "./same-bytes.js";

type Replaced = Device & { readonly replacement: DeviceIdentity };

/**
 * Records that the hardware found in the devices' places is the devices' own, as an operator states. Confirms all the
 * devices or none.
 */
export function confirmDevice(
  tx: RegistryTransaction,
  selector: DeviceSelector,
  { nowMs, shared }: { readonly nowMs: number; readonly shared: SharedSerialNumbers },
): ActionResult {
  const devices = requireDevices(tx, selector);
  const names = named(devices.map(({ deviceId }) => deviceId));
  const replaced = devices.filter((device): device is Replaced => device.replacement !== undefined);
  if (replaced.length === 0) return actionResult("S_ALREADY", `none of ${names} waits for a confirmation`);
  for (const device of replaced) {
    const about = { device_id: device.deviceId };
    if (!isUnproven(device))
      throw new InvalidStateError(`device ${device.deviceId} cannot be confirmed: ${whyReplaced(device)}`, { about });
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

function asConfirmed({ replacement, ...device }: Replaced, nowMs: number): Device {
  // Only AddDevice accepts the grown size.
  const { sizeBytes } = device;
  return withReportedHealth({ ...device, ...replacement, sizeBytes }, { health: "ONLINE", healthMessage: "" }, nowMs);
}
