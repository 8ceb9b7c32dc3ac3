import { setTimeout as delay } from "node:timers/promises";
import { Health } from "@diskmesh/api/registry";
import { type Operation, persistently, type Soak } from "../soak.js";

const ROUND_MS = 2_000;

/** Repairs failed drives as operators do: a hardware error stays until SetDeviceState clears it. */
export const repairs: Operation = {
  name: "repair of failed devices",
  workers: 1,
  async run(soak) {
    await repairDevices(soak);
    await delay(ROUND_MS);
  },
};

/** Clears hardware errors of all drives that work now. Other troubles heal by themselves. */
export async function repairDevices({ fleet }: Soak): Promise<void> {
  const { registry } = fleet.clients;
  for (const hostId of fleet.workHosts) {
    const { devices } = await persistently("ListDevices", () => registry.listDevices({ hostId, pageSize: 1_000 }));
    const deviceIds = devices
      .filter(({ hardwareError }) => hardwareError !== undefined)
      .map(({ deviceId }) => deviceId);
    if (deviceIds.length === 0) continue;
    const word = { deviceIds, health: Health.ONLINE, reason: "seen to" };
    await persistently("SetDeviceState", () => registry.setDeviceState(word));
  }
}
