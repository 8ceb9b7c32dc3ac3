import type { DeviceId } from "@diskmesh/domain";
import type {
  Device,
  Health,
  KeptHealth,
  OperatorsWord,
  RegistryTables,
  RegistryTransaction,
} from "../store/schema.js";
import { noDevice } from "./device-selection.js";

type Said = Pick<Device, "health" | "healthMessage">;

/** A hardware error of a device. */
export interface HardwareError {
  readonly message: string;
  /** Earliest time, by the registry's clock, at which the last reported error occurred. */
  readonly metAtMs: number;
}

/**
 * Maximum age of an error that is believed; a larger age counts as 0. A host whose clock was set after the error
 * reports an age of decades.
 */
const MAX_ERROR_AGE_MS = 30 * 24 * 60 * 60 * 1_000;

const WORSE: readonly Health[] = ["ONLINE", "WARNING", "ERROR"];

/** Returns the health that the agent reports, without remembered hardware errors and operator overrides. */
export function reportedHealth({ health, healthMessage, keptHealth }: Device): Said {
  return keptHealth?.reported ?? { health, healthMessage };
}

/** Returns the device with the health that its agent reports. Hardware errors and operator overrides stay. */
export function withReportedHealth(device: Device, reported: Said, nowMs: number): Device {
  const { unwellSinceMs = nowMs, ...rest } = device;
  const { hardwareError, said } = rest.keptHealth ?? {};
  const now = compose(rest, { hardwareError, said, reported });
  return reported.health === "ONLINE" ? now : { ...now, unwellSinceMs };
}

/** Returns when an error occurred, from the age that an agent reported. */
export function metAtMs(ageMs: number, heardAtMs: number): number {
  const isBelievable = ageMs >= 0 && ageMs <= MAX_ERROR_AGE_MS;
  return isBelievable ? heardAtMs - ageMs : heardAtMs;
}

/**
 * Returns the device with a hardware error, which stays until an operator overrides it. An error that is already
 * recorded is kept.
 */
export function withHardwareError(device: Device, error: HardwareError, nowMs: number): Device {
  const { hardwareError, said } = device.keptHealth ?? {};
  if (hardwareError !== undefined || isTakenBack(device, error, nowMs)) return device;
  const first = { message: error.message, atMs: nowMs };
  return compose(device, { hardwareError: first, said, reported: reportedHealth(device) });
}

/**
 * Returns whether an operator declared the device well after the error. Returns false while the clock shows a time
 * before the declaration (the clock was set back): a second declaration costs less than trusting a broken drive.
 */
function isTakenBack({ saidWellAtMs }: Device, error: HardwareError, nowMs: number): boolean {
  return saidWellAtMs !== undefined && saidWellAtMs <= nowMs && error.metAtMs < saidWellAtMs;
}

/** Drops hardware errors and overrides of the former hardware. */
export function withoutKeptHealth({ keptHealth: _, ...device }: Device): Device {
  return device;
}

/**
 * Combines the sources: the worst health counts. Among equals the operator's override comes first, then a hardware
 * error, then the agent's report.
 */
function compose(device: Device, { hardwareError, said, reported }: KeptHealth): Device {
  const { keptHealth: before, ...rest } = device;
  const all: Said[] = [];
  if (said) all.push({ health: said.health, healthMessage: `${said.health} set by ${said.by}: ${said.reason}` });
  if (hardwareError)
    all.push({ health: "ERROR", healthMessage: `${hardwareError.message} (until SetDeviceState resets it)` });
  const { health, healthMessage } = [...all, reported].reduce((worst, each) =>
    WORSE.indexOf(each.health) > WORSE.indexOf(worst.health) ? each : worst,
  );
  if (all.length === 0) return { ...rest, health, healthMessage };
  const kept: KeptHealth = { ...(hardwareError && { hardwareError }), ...(said && { said }), reported };
  const isSame = JSON.stringify(kept) === JSON.stringify(before);
  return { ...rest, health, healthMessage, keptHealth: isSame ? before : kept };
}

/**
 * Sets an operator's health override. ONLINE removes the override and clears hardware errors, including earlier errors
 * that agents report only later. Returns the devices whose health changed.
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
  throw noDevice(tables, deviceId);
}
