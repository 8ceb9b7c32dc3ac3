import type { ReportedDevice } from "../model/devices/reported-devices.js";
import { type Registration, type RegistrationAnswer, registerAgent } from "../model/hosts/registration.js";
import { aDevice, aHost, deviceId, leader, remembered, type TestFleet } from "./fleet-fixture.js";

export const NOW_MS = 50_000;
export const limits = { maxHosts: 3 };

/** Returns the report of a held device that matches `aDevice`. */
export function reported(id: string, fields: Partial<ReportedDevice> = {}): ReportedDevice {
  const { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool } = aDevice(id);
  const facts = { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool };
  return {
    deviceId: deviceId(id),
    ...facts,
    health: "ONLINE",
    healthMessage: "",
    attached: true,
    sessionNumber: 0,
    sessionDiskId: "",
    ...fields,
  };
}

/** Returns a registration of host h1 with the given devices. */
export function registration(devices: readonly ReportedDevice[], fields: Partial<Registration> = {}): Registration {
  const { hostId, address, az, rack, bootId } = aHost("h1");
  return {
    hostId,
    address,
    az,
    rack,
    bootId,
    devices,
    exports: [],
    remembered,
    ...fields,
  };
}

export function register(fleet: TestFleet, from: Registration, nowMs = NOW_MS): RegistrationAnswer {
  return fleet.transact((tx) => registerAgent(tx, from, leader, limits, nowMs));
}
