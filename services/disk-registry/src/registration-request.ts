import type { RegisterAgentRequest, ReportedDevice as ReportedDeviceMessage } from "@diskmesh/api/registry";
import {
  type HostId,
  parseDeviceId,
  parseDiskId,
  parseId,
  parseName,
  parseOptionalName,
  parseSizeBytes,
} from "@diskmesh/domain";
import type { Config } from "./config.js";
import type { Registration } from "./model/registration.js";
import type { ReportedDevice } from "./model/reported-devices.js";
import {
  parseAddress,
  parseCount,
  parseCounterValue,
  parseDevicePath,
  plainText,
  requireAtMost,
  requireUnique,
} from "./requests.js";
import { healthOf } from "./wire.js";

/** Narrows a registration; refuses it as a whole when any of it is malformed. */
export function parseRegistration(
  request: RegisterAgentRequest,
  hostId: HostId,
  limits: Config["limits"],
): Registration {
  requireAtMost("devices", request.devices, limits.maxDevicesPerHost);
  requireAtMost("exports", request.exports, limits.maxExportsPerHost);
  requireUnique(
    "devices",
    request.devices.map((device) => device.deviceId),
  );
  return {
    hostId,
    address: parseAddress(request.address),
    az: parseName("az", request.az),
    rack: parseOptionalName("rack", request.rack) ?? "",
    bootId: parseId("boot_id", request.bootId),
    devices: request.devices.map((device) => parseDevice(device, request.tabletId, limits)),
    exports: request.exports.map(({ diskId, sessionNumber }) => ({
      diskId: parseDiskId(diskId),
      sessionNumber: parseCounterValue("session_number", sessionNumber),
    })),
    tabletId: request.tabletId === "" ? "" : parseId("tablet_id", request.tabletId),
    registrationNumber: parseCounterValue("registration_number", request.registrationNumber),
    highestTabletGeneration: parseCounterValue("highest_tablet_generation", request.highestTabletGeneration),
  };
}

function parseDevice(device: ReportedDeviceMessage, tabletId: string, limits: Config["limits"]): ReportedDevice {
  const health = healthOf(device.health, "health");
  // What cannot be opened has no size that anybody knows.
  const parseSize = health === "ERROR" ? parseCount : parseSizeBytes;
  return {
    deviceId: parseDeviceId(device.deviceId),
    path: parseDevicePath(device.path),
    offsetBytes: parseCount("offset_bytes", device.offsetBytes),
    sizeBytes: parseSize("size_bytes", device.sizeBytes),
    blockSizeBytes: parseSize("block_size_bytes", device.blockSizeBytes),
    serialNumber: plainText(device.serialNumber, limits.maxTextLength),
    pool: parseOptionalName("pool", device.pool) ?? "default",
    ...(device.fileIdentity !== "" && { fileIdentity: plainText(device.fileIdentity, limits.maxTextLength) }),
    health,
    healthMessage: plainText(device.healthMessage, limits.maxTextLength),
    attached: device.attached,
    stamp: parseStamp(device.stamp, tabletId),
    sessionNumber: parseCounterValue("session_number", device.sessionNumber),
  };
}

/** A stamp of another tablet than the agent obeys says nothing. */
function parseStamp(stamp: ReportedDeviceMessage["stamp"], tabletId: string): ReportedDevice["stamp"] {
  if (stamp === undefined || stamp.tabletId !== tabletId) return undefined;
  return {
    tabletId,
    tabletGeneration: parseCounterValue("tablet_generation", stamp.tabletGeneration),
    deviceGeneration: parseCounterValue("device_generation", stamp.deviceGeneration),
  };
}
