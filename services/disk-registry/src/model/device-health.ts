import { type DeviceId, NotFoundError } from "@diskmesh/domain";
import type { Device, Health, KeptHealth, OperatorsWord, RegistryTables, RegistryTransaction } from "./schema.js";

/** Health, and why it is not ONLINE. */
type Said = Pick<Device, "health" | "healthMessage">;

const WORSE: readonly Health[] = ["ONLINE", "WARNING", "ERROR"];

/** What the device's agent says of it, whatever is kept beside that. */
export function reportedHealth({ health, healthMessage, keptHealth }: Device): Said {
  return keptHealth?.reported ?? { health, healthMessage };
}

/** The device as its agent says it is now. What is kept of its hardware stays. */
export function withReportedHealth(device: Device, reported: Said, nowMs: number): Device {
  const { unwellSinceMs = nowMs, ...rest } = device;
  const { hardwareError, said } = rest.keptHealth ?? {};
  const now = compose(rest, { hardwareError, said, reported });
  return reported.health === "ONLINE" ? now : { ...now, unwellSinceMs };
}

/** The device with an error of its hardware, until an operator says otherwise. The first one is kept. */
export function withHardwareError(device: Device, message: string, nowMs: number): Device {
  const { hardwareError = { message, atMs: nowMs }, said } = device.keptHealth ?? {};
  return compose(device, { hardwareError, said, reported: reportedHealth(device) });
}

/** Other hardware: nothing that was said of the former is true of it. */
export function withoutKeptHealth({ keptHealth: _, ...device }: Device): Device {
  return device;
}

/** The worst counts; of equal ones an operator's word, then an error of the hardware. */
function compose(device: Device, { hardwareError, said, reported }: KeptHealth): Device {
  const { keptHealth: before, ...rest } = device;
  const all: Said[] = [];
  if (said)
    all.push({ health: said.health, healthMessage: `${said.health} by the word of ${said.by}: ${said.reason}` });
  if (hardwareError)
    all.push({ health: "ERROR", healthMessage: `${hardwareError.message} (until SetDeviceState says otherwise)` });
  const { health, healthMessage } = [...all, reported].reduce((worst, each) =>
    WORSE.indexOf(each.health) > WORSE.indexOf(worst.health) ? each : worst,
  );
  if (all.length === 0) return { ...rest, health, healthMessage };
  const kept: KeptHealth = { ...(hardwareError && { hardwareError }), ...(said && { said }), reported };
  const isSame = JSON.stringify(kept) === JSON.stringify(before);
  return { ...rest, health, healthMessage, keptHealth: isSame ? before : kept };
}

/** What an operator says of devices: ONLINE takes back what was said, and clears errors of the hardware. */
export function sayOfDevices(
  tx: RegistryTransaction,
  deviceIds: readonly DeviceId[],
  health: Health,
  word: OperatorsWord,
): readonly Device[] {
  const devices = deviceIds.map((deviceId) => requireDevice(tx, deviceId));
  const changed = devices
    .filter((device) => changes(device, health, word.reason))
    .map((device) => {
      const reported = reportedHealth(device);
      if (health === "ONLINE") return compose(device, { reported });
      const { hardwareError } = device.keptHealth ?? {};
      return compose(device, { hardwareError, said: { ...word, health }, reported });
    });
  for (const device of changed) tx.devices.put(device);
  return changed;
}

function changes({ keptHealth }: Device, health: Health, reason: string): boolean {
  if (health === "ONLINE") return keptHealth !== undefined;
  return keptHealth?.said?.health !== health || keptHealth.said.reason !== reason;
}

function requireDevice(tables: RegistryTables, deviceId: DeviceId): Device {
  const device = tables.devices.get(deviceId);
  if (device !== undefined) return device;
  throw new NotFoundError(`no agent reported device ${deviceId}`, { about: { device_id: deviceId } });
}
