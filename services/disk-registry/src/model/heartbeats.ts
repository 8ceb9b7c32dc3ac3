import { AbortedError, type DeviceId, type HostId, NotFoundError } from "@diskmesh/domain";
import type { Health, Host, RegistryTables, RegistryTransaction } from "./schema.js";

export interface DeviceHealth {
  readonly deviceId: DeviceId;
  readonly health: Health;
  readonly healthMessage: string;
}

/** From this many hosts on, more than half of them falling silent at once is taken for a fault of ours or the network's. */
const MASS_SILENCE_MIN_HOSTS = 10;

/** The host of a heartbeat. Throws what makes its agent register again. */
export function requireRegistered(tables: RegistryTables, hostId: HostId, bootId: string): Host {
  const about = { host_id: hostId };
  const host = tables.hosts.get(hostId);
  if (host === undefined) throw new NotFoundError(`host ${hostId} is not registered: register first`, { about });
  if (host.bootId !== bootId) {
    throw new AbortedError(`another start of the agent of host ${hostId} has registered since: register again`, {
      about,
    });
  }
  if (host.mustRegister) {
    throw new AbortedError(`devices of host ${hostId} were purged while it was not heard from: register again`, {
      about,
    });
  }
  return host;
}

/** A heartbeat that changes something: the host was silent before, or devices' health changed. */
export function applyHeartbeat(
  tx: RegistryTransaction,
  hostId: HostId,
  bootId: string,
  changed: readonly DeviceHealth[],
  nowMs: number,
): void {
  const host = requireRegistered(tx, hostId, bootId);
  if (host.state === "UNAVAILABLE")
    tx.hosts.put({ ...host, state: "ONLINE", stateMessage: "", stateChangedAtMs: nowMs });
  for (const { deviceId, health, healthMessage } of changed) {
    const device = tx.devices.get(deviceId);
    // Hardware that was swapped works, but is not the device: only a registration or AddDevice clears that.
    if (device === undefined || device.hostId !== hostId || device.replacement !== undefined) continue;
    if (device.health === health && device.healthMessage === healthMessage) continue;
    tx.devices.put({ ...device, health, healthMessage });
  }
}

export interface Silence {
  /** To become UNAVAILABLE. */
  readonly silent: readonly HostId[];
  /** Silent too, but so many at once that none is believed to be dead. */
  readonly suspected: readonly HostId[];
}

/**
 * Which hosts have been silent for the timeout. With ten hosts or more, if more than half fall silent within one
 * window (those that were found silent during the last timeout count), none of them is changed.
 */
export function findSilent(
  tables: RegistryTables,
  silentForMs: (hostId: HostId) => number,
  timeoutMs: number,
  nowMs: number,
): Silence {
  const silent: HostId[] = [];
  let heardBefore = 0;
  let recentlyLost = 0;
  for (const host of tables.hosts.entries()) {
    if (host.state === "UNAVAILABLE") {
      if (nowMs - host.stateChangedAtMs < timeoutMs) recentlyLost++;
      continue;
    }
    heardBefore++;
    if (silentForMs(host.hostId) > timeoutMs) silent.push(host.hostId);
  }
  const inWindow = heardBefore + recentlyLost;
  const massSilence = inWindow >= MASS_SILENCE_MIN_HOSTS && (silent.length + recentlyLost) * 2 > inWindow;
  return massSilence ? { silent: [], suspected: silent } : { silent, suspected: [] };
}

export function markUnavailable(
  tx: RegistryTransaction,
  hostIds: readonly HostId[],
  timeoutMs: number,
  nowMs: number,
): void {
  for (const hostId of hostIds) {
    const host = tx.hosts.get(hostId);
    if (host === undefined || host.state === "UNAVAILABLE") continue;
    const stateMessage = `host ${hostId} is UNAVAILABLE: no heartbeat for ${timeoutMs} ms`;
    tx.hosts.put({ ...host, state: "UNAVAILABLE", stateMessage, stateChangedAtMs: nowMs });
  }
}
