import { parseDeviceId, UnavailableError } from "@diskmesh/domain";
import type { DriverOffers } from "@diskmesh/driver/host";
import type { Clock } from "@diskmesh/service";
import type { Device } from "./device.js";
import type { DeviceTable } from "./device-table.js";

/** Read-only access of the drivers to the host's devices. */
export function deviceOffers(devices: DeviceTable, clock: Clock, random: () => number): DriverOffers {
  const found = (deviceId: string): Device => devices.get(parseDeviceId(deviceId));
  return {
    devices: async () =>
      devices.all().map((device) => ({
        deviceId: device.id,
        path: device.config.path,
        sizeBytes: device.sizeBytes,
        blockSizeBytes: device.config.blockSizeBytes,
        serialNumber: device.reported.serialNumber,
        attached: device.attached,
      })),
    probe: async (deviceId) => {
      const device = found(deviceId);
      if (!device.attached) throw new UnavailableError(`device ${device.id} is not attached, so it cannot be read`);
      const beganMs = clock.monotonicMs();
      await device.probe(random());
      const { problem } = device;
      if (problem?.level === "ERROR") throw new UnavailableError(problem.message);
      return clock.monotonicMs() - beganMs;
    },
    warnOf: async (deviceId, message, driver) => found(deviceId).driverWarnings.set(driver, message),
  };
}
