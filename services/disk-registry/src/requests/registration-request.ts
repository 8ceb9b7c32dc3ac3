import {
  LabelState,
  type RegisterAgentRequest,
  type ReportedDevice as ReportedDeviceMessage,
} from "@diskmesh/api/internal";
import {
  type HostId,
  InvalidArgumentError,
  parseDeviceId,
  parseDevicePath,
  parseDiskId,
  parseId,
  parseName,
  parseOptionalName,
  parseSizeBytes,
} from "@diskmesh/domain";
import type { Config } from "../config/config.js";
import type { RegistryLimits } from "../config/limits.js";
import { metAtMs } from "../model/devices/device-health.js";
import type { ReportedDevice } from "../model/devices/reported-devices.js";
import type { Remembered } from "../model/disks/remembered.js";
import type { RefusedDevice, Registration } from "../model/hosts/registration.js";
import type { ReportedLabel } from "../model/identity/labels.js";
import { parseAddress, parseCount, parseCounterValue, plainText, requireAtMost, requireUnique } from "./requests.js";
import { healthOf } from "./wire.js";

type Rules = { readonly limits: RegistryLimits } & Pick<Config, "serialNumbersOfMany">;

/**
 * Parses a registration. A malformed device is refused alone, because one badly named file must not exclude its host;
 * any other error refuses the whole registration.
 */
export function parseRegistration(
  request: RegisterAgentRequest,
  hostId: HostId,
  rules: Rules,
  heardAtMs: number,
): Registration {
  const { limits } = rules;
  requireAtMost("devices", request.devices, limits.maxDevicesPerHost);
  requireAtMost("exports", request.exports, limits.maxExportsPerHost);
  requireUnique(
    "devices",
    request.devices.map((device) => device.deviceId),
  );
  const { accepted, devices, refusedDevices } = parseDevices(request, rules, heardAtMs);
  return {
    hostId,
    address: parseAddress(request.address),
    az: parseName("az", request.az),
    rack: parseOptionalName("rack", request.rack) ?? "",
    bootId: parseId("boot_id", request.bootId),
    devices,
    refusedDevices,
    exports: request.exports.map(({ diskId, sessionNumber, wentOn }) => ({
      diskId: parseDiskId(diskId),
      sessionNumber: parseCounterValue("session_number", sessionNumber),
      ...(wentOn && { wentOn }),
    })),
    remembered: withReported(rememberedOf(request), { devices: accepted, exports: request.exports }),
    warning: plainText(request.warning, limits.maxTextLength),
    slices: request.knowsRuns,
    registrationNumber: parseCounterValue("registration_number", request.registrationNumber),
  };
}

/** Returns the numbers that an agent remembers; every kind of agent message has these fields. */
export function rememberedOf(message: {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly highestTabletGeneration: number;
  readonly highestDeviceGeneration: number;
  readonly highestSessionNumber: number;
}): Remembered {
  return {
    tabletId: message.tabletId === "" ? "" : parseId("tablet_id", message.tabletId),
    incarnation: message.incarnation === "" ? "" : parseId("incarnation", message.incarnation),
    tabletGeneration: parseCounterValue("highest_tablet_generation", message.highestTabletGeneration),
    deviceGeneration: parseCounterValue("highest_device_generation", message.highestDeviceGeneration),
    sessionNumber: parseCounterValue("highest_session_number", message.highestSessionNumber),
  };
}

function parseDevices({ devices: reported, incarnation }: RegisterAgentRequest, rules: Rules, heardAtMs: number) {
  const accepted: ReportedDeviceMessage[] = [];
  const devices: ReportedDevice[] = [];
  const refusedDevices: RefusedDevice[] = [];
  for (const device of reported) {
    const deviceId = parseDeviceId(device.deviceId);
    try {
      devices.push(parseDevice(device, incarnation, rules, heardAtMs));
      accepted.push(device);
    } catch (error) {
      if (!(error instanceof InvalidArgumentError)) throw error;
      refusedDevices.push({ deviceId, reason: error.message });
    }
  }
  return { accepted, devices, refusedDevices };
}

function parseDevice(
  device: ReportedDeviceMessage,
  incarnation: string,
  { limits, serialNumbersOfMany }: Rules,
  heardAtMs: number,
): ReportedDevice {
  const health = healthOf(device.health, "health");
  // Accepts size 0 with health ERROR, because an agent reports size 0 for a device that it cannot open.
  const parseSize = health === "ERROR" ? parseCount : parseSizeBytes;
  const serialNumber = plainText(device.serialNumber, limits.maxTextLength);
  return {
    deviceId: parseDeviceId(device.deviceId),
    path: parseDevicePath(device.path),
    offsetBytes: parseCount("offset_bytes", device.offsetBytes),
    sizeBytes: parseSize("size_bytes", device.sizeBytes),
    blockSizeBytes: parseSize("block_size_bytes", device.blockSizeBytes),
    serialNumber: serialNumbersOfMany.has(serialNumber) ? "" : serialNumber,
    pool: parseOptionalName("pool", device.pool) ?? "default",
    ...(device.fileIdentity !== "" && { fileIdentity: plainText(device.fileIdentity, limits.maxTextLength) }),
    health,
    healthMessage: plainText(device.healthMessage, limits.maxTextLength),
    attached: device.attached,
    ...(device.hardwareError !== "" && {
      hardwareError: {
        message: plainText(device.hardwareError, limits.maxTextLength),
        metAtMs: metAtMs(device.hardwareErrorAgeMs, heardAtMs),
      },
    }),
    sessionNumber: parseCounterValue("session_number", device.sessionNumber),
    sessionDiskId: parseSessionDisk(device.sessionDiskId, incarnation),
    floor: parseCounterValue("floor", device.floor),
    ...parseLabel(device),
  };
}

/** Parses the state of the label, and a whole one. A registry that knows fewer states reads an unknown one as unread. */
function parseLabel({ labelState, label }: ReportedDeviceMessage): ReportedLabel {
  if (labelState === LabelState.NONE) return { labelState: "NONE" };
  if (labelState === LabelState.DAMAGED) return { labelState: "DAMAGED" };
  if (labelState === LabelState.USERS) return { labelState: "USERS" };
  if (labelState !== LabelState.VALID || label === undefined) return {};
  if (!/^[0-9a-f]{32}$/.test(label.labelId))
    throw new InvalidArgumentError("label_id must have 32 lower-case hex digits");
  const [fleetId, deviceId] = [parseId("fleet_id", label.fleetId), parseDeviceId(label.deviceId)];
  return { labelState: "VALID", readLabel: { fleetId, deviceId, labelId: label.labelId } };
}

/**
 * Returns the disk of the agent's last session; empty for an erase. Undefined for an agent without an incarnation,
 * whose release may lack the field.
 */
function parseSessionDisk(sessionDiskId: string, incarnation: string): ReportedDevice["sessionDiskId"] {
  if (sessionDiskId !== "") return parseDiskId(sessionDiskId, "session_disk_id");
  return incarnation === "" ? undefined : "";
}

/** Returns the remembered numbers, raised to the numbers of the devices and exports in the message. */
function withReported(
  remembered: Remembered,
  { devices, exports }: Pick<RegisterAgentRequest, "devices" | "exports">,
): Remembered {
  let { tabletGeneration, deviceGeneration, sessionNumber } = remembered;
  for (const { stamp, sessionNumber: ofDevice } of devices) {
    sessionNumber = Math.max(sessionNumber, parseCounterValue("session_number", ofDevice));
    // Skips stamps of a tablet or incarnation that the agent no longer obeys.
    if (stamp?.tabletId !== remembered.tabletId || stamp.incarnation !== remembered.incarnation) continue;
    const ofStamp = parseCounterValue("tablet_generation", stamp.tabletGeneration);
    tabletGeneration = Math.max(tabletGeneration, ofStamp);
    deviceGeneration = Math.max(deviceGeneration, parseCounterValue("device_generation", stamp.deviceGeneration));
  }
  for (const ofExport of exports)
    sessionNumber = Math.max(sessionNumber, parseCounterValue("session_number", ofExport.sessionNumber));
  return { ...remembered, tabletGeneration, deviceGeneration, sessionNumber };
}
