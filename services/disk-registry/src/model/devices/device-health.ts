import { type DeviceId, NotFoundError } from "@diskmesh/domain";
import type {
  Device,
  Health,
  KeptHealth,
  OperatorsWord,
  RegistryTables,
  RegistryTransaction,
} from "../store/schema.js";

/** Health, and why it is not ONLINE. */
type Said = Pick<Device, "health" | "healthMessage">;

/** An error that a device's hardware failed with. */
export interface HardwareError {
  readonly message: string;
  /** By the registry's clock: not before that the agent met the last one of which it tells. */
  readonly metAtMs: number;
}

/** A host whose clock was not set yet when it noted an error tells later that this was decades ago. */
const MAX_ERROR_AGE_MS = 30 * 24 * 60 * 60 * 1_000;

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

/** When an error was met, of which an agent has told that it was so long ago. */
export function metAtMs(ageMs: number, heardAtMs: number): number {
  const isBelievable = ageMs >= 0 && ageMs <= MAX_ERROR_AGE_MS;
  return isBelievable ? heardAtMs - ageMs : heardAtMs;
}

/** The device with an error of its hardware, until an operator says otherwise. The first one since is kept. */
export function withHardwareError(device: Device, error: HardwareError, nowMs: number): Device {
  const { hardwareError, said } = device.keptHealth ?? {};
  if (hardwareError !== undefined || isTakenBack(device, error, nowMs)) return device;
  const first = { message: error.message, atMs: nowMs };
  return compose(device, { hardwareError: first, said, reported: reportedHealth(device) });
}

/**
 * An operator has said since that the device is well. Nobody can tell when the clock has been set back behind that word:
 * it is better said twice than a broken drive trusted.
 */
function isTakenBack({ saidWellAtMs }: Device, error: HardwareError, nowMs: number): boolean {
  return saidWellAtMs !== undefined && saidWellAtMs <= nowMs && error.metAtMs < saidWellAtMs;
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

/**
 * What an operator says of devices: ONLINE takes back what was said, and clears errors of the hardware, also those that
 * their agents have still to tell. Returns those of which it says something new.
 */
export function sayOfDevices(
  tx: RegistryTransaction,
  deviceIds: readonly DeviceId[],
  health: Health,
  word: OperatorsWord,
): readonly Device[] {
  const changed: Device[] = [];
  for (const before of deviceIds.map((deviceId) => requireDevice(tx, deviceId))) {
    const isNews = changes(before, health, word.reason);
    if (!isNews && health !== "ONLINE") continue;
    const device = afterWord(before, health, word);
    tx.devices.put(device);
    if (isNews) changed.push(device);
  }
  return changed;
}

function afterWord(device: Device, health: Health, word: OperatorsWord): Device {
  const reported = reportedHealth(device);
  if (health === "ONLINE") return compose({ ...device, saidWellAtMs: word.atMs }, { reported });
  const { hardwareError } = device.keptHealth ?? {};
  return compose(device, { hardwareError, said: { ...word, health }, reported });
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
