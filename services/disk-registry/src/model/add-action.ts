import { type HostId, isKnownSame } from "@diskmesh/domain";
import { type ActionResult, actionResult } from "./action-result.js";
import { advance } from "./attach-states.js";
import { type DeviceSelector, devicesOfHost, findDevices, findHost } from "./device-selection.js";
import { distrusted } from "./reported-devices.js";
import { NO_SHARED_SERIAL_NUMBERS, onSameBytes, type SharedSerialNumbers, whyRefused } from "./same-bytes.js";
import type { Device, RegistryTransaction } from "./schema.js";

/** Takes a host and all its devices into operation. */
export function addHost(
  tx: RegistryTransaction,
  hostId: HostId,
  nowMs: number,
  shared = NO_SHARED_SERIAL_NUMBERS,
): ActionResult {
  const host = findHost(tx, hostId);
  if ("refused" in host) return host.refused;
  const wished = host.found.removalRequested;
  if (wished) tx.hosts.put({ ...host.found, removalRequested: false });
  const devices = devicesOfHost(tx, hostId);
  const { changed, refused } = addAll(tx, devices, nowMs, shared);
  if (refused.length > 0) {
    const taken = devices.length - refused.length;
    const what = `host ${hostId} is in operation with ${taken} of its ${devices.length} devices; the others are refused`;
    return actionResult("E_INVALID_STATE", `${what}: ${refused.join("; ")}`);
  }
  if (changed === 0 && !wished) {
    return actionResult("S_ALREADY", `host ${hostId} is in operation with its ${devices.length} devices`);
  }
  return actionResult(
    "S_OK",
    `host ${hostId} is in operation; ${changed} of its ${devices.length} devices were taken in`,
  );
}

/** Takes one device, or all devices on a path, into operation. */
export function addDevice(
  tx: RegistryTransaction,
  selector: DeviceSelector,
  nowMs: number,
  shared = NO_SHARED_SERIAL_NUMBERS,
): ActionResult {
  const devices = findDevices(tx, selector);
  if ("refused" in devices) return devices.refused;
  const names = devices.found.map((device) => device.deviceId).join(", ");
  const { changed, refused } = addAll(tx, devices.found, nowMs, shared);
  if (refused.length > 0) return actionResult("E_INVALID_STATE", refused.join("; "));
  if (changed === 0) return actionResult("S_ALREADY", `in operation already: ${names}`);
  return actionResult("S_OK", `in operation: ${names}`);
}

/** How many devices it changed, and why it left others as they are: what lies on the bytes of another is not taken in. */
function addAll(
  tx: RegistryTransaction,
  devices: readonly Device[],
  nowMs: number,
  shared: SharedSerialNumbers,
): { readonly changed: number; readonly refused: readonly string[] } {
  let changed = 0;
  const refused: string[] = [];
  for (const device of devices) {
    const why = whyRefused(tx, asAccepted(device), shared);
    if (why !== undefined) {
      refused.push(why);
      continue;
    }
    const added = withoutWish(takenIn(tx, device, nowMs, shared));
    if (added === device) continue;
    tx.devices.put(added);
    changed++;
  }
  return { changed, refused };
}

/** What would be taken in: with the hardware that was found in its place, and without any claim that it is to get. */
function asAccepted(device: Device): Device {
  if (device.diskId !== "") return device;
  const isNew = device.replacement !== undefined || device.attachState === "CLOSING";
  return isNew ? { ...device, ...device.replacement, attachState: "UNKNOWN" } : device;
}

function takenIn(tx: RegistryTransaction, device: Device, nowMs: number, shared: SharedSerialNumbers): Device {
  const advanced = acceptReplacement(tx, device, advance(tx, device, "add", nowMs), nowMs);
  // The agent compares what it opens with what is recorded; without a mark it would open any drive of that size.
  const isNew = device.attachState !== "ATTACHING" && device.attachState !== "ATTACHED";
  if (!isNew) return advanced;
  // While it was out of operation, another device on its bytes may have been in, and left them as they were.
  const hasSharer = !onSameBytes(tx, device, shared).next().done;
  return hasSharer || !isKnownSame(device, device) ? distrusted(advanced) : advanced;
}

function withoutWish(device: Device): Device {
  if (!device.removalRequested) return device;
  const { keepData: _, ...rest } = device;
  return { ...rest, removalRequested: false };
}

/** Replaced hardware becomes the device, of unknown contents. While a disk is on the device, its bytes are the missing hardware's. */
function acceptReplacement(tx: RegistryTransaction, before: Device, device: Device, nowMs: number): Device {
  if (device.replacement === undefined || device.diskId !== "") return device;
  // An answer to an order for the former hardware must not confirm the new one.
  const ordered = device.generation === before.generation ? advance(tx, device, "replacement_accepted", nowMs) : device;
  const { replacement, ...rest } = ordered;
  return { ...rest, ...replacement, dirty: true, eraseSessionNumber: 0, health: "ONLINE", healthMessage: "" };
}
