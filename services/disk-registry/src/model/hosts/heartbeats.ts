import { AbortedError, type DeviceId, type HostId, NotFoundError } from "@diskmesh/domain";
import { type HardwareError, reportedHealth, withHardwareError, withReportedHealth } from "../devices/device-health.js";
import type { Leader } from "../devices/orders.js";
import type { FenceWord } from "../disks/fences.js";
import type { WhySuspected } from "../disks/placement.js";
import type { Remembered } from "../disks/remembered.js";
import { type Health, type Host, isAway, type RegistryTables, type RegistryTransaction } from "../store/schema.js";

export interface DeviceHealth {
  readonly deviceId: DeviceId;
  readonly health: Health;
  readonly healthMessage: string;
}

/** A hardware error of the named device. */
export interface HardwareFailure extends HardwareError {
  readonly deviceId: DeviceId;
}

/**
 * Minimum fleet size for the mass-outage guard: when more than half of the hosts fall silent at once, the network or
 * the registry is taken to be at fault.
 */
const MASS_SILENCE_MIN_HOSTS = 10;

/** Returns the host of a heartbeat. Throws the error that makes its agent register again. */
export function requireRegistered(tables: RegistryTables, hostId: HostId, bootId: string): Host {
  const about = { host_id: hostId };
  const host = tables.hosts.get(hostId);
  if (host === undefined) throw new NotFoundError(`host ${hostId} is not registered: register first`, { about });
  if (host.bootId !== bootId) {
    throw new AbortedError(`a later start of the agent of host ${hostId} has registered: register again`, {
      about,
    });
  }
  if (host.mustRegister) {
    throw new AbortedError(`the registry's record of host ${hostId} may be outdated: register again`, { about });
  }
  return host;
}

/**
 * Throws the error that makes an agent register again when it still obeys a predecessor. Such an agent never received
 * the answer to its accepted registration, and would refuse every order.
 */
export function requireObeyed(
  leader: Leader,
  hostId: HostId,
  { tabletId, incarnation }: Pick<Remembered, "tabletId" | "incarnation">,
): void {
  if (incarnation === "" || (tabletId === leader.tabletId && incarnation === leader.incarnation)) return;
  throw new AbortedError(
    `the agent of host ${hostId} obeys incarnation ${incarnation}, which this registry has replaced: register again`,
    { about: { host_id: hostId } },
  );
}

/** Contents of a heartbeat. */
export interface AgentReport {
  readonly changed: readonly DeviceHealth[];
  readonly failed?: readonly HardwareFailure[];
  /** Reason why nothing new may be placed on the host; empty for none. */
  readonly warning?: string;
}

/** Applies a heartbeat that changes something: the host was silent before, or devices' health changed. */
export function applyHeartbeat(
  tx: RegistryTransaction,
  hostId: HostId,
  bootId: string,
  { changed, failed = [], warning = "" }: AgentReport,
  nowMs: number,
  probationMs = 0,
): void {
  const host = requireRegistered(tx, hostId, bootId);
  const heard = host.state === "UNAVAILABLE" ? backFromUnavailable(host, probationMs, nowMs) : host;
  const warned = withAgentWarning(heard, warning, nowMs);
  if (warned !== host) tx.hosts.put(warned);
  for (const { deviceId, health, healthMessage } of changed) {
    const device = tx.devices.get(deviceId);
    // Ignores the health of a device in whose place other hardware was found, because it is the health of that
    // hardware. Only a registration or AddDevice clears the error. A device whose last report was malformed may be
    // other hardware, too.
    if (device?.hostId !== hostId || device.replacement !== undefined || device.refused) continue;
    const before = reportedHealth(device);
    if (before.health === health && before.healthMessage === healthMessage) continue;
    tx.devices.put(withReportedHealth(device, { health, healthMessage }, nowMs));
  }
  for (const failure of failed) {
    const device = tx.devices.get(failure.deviceId);
    if (device?.hostId !== hostId || device.replacement !== undefined) continue;
    const noted = withHardwareError(device, failure, nowMs);
    if (noted !== device) tx.devices.put(noted);
  }
}

/**
 * Returns the host after it was heard again, on probation. Probation keeps new disks away from a host that comes and
 * goes.
 */
export function backFromUnavailable({ lossNoted: _, ...host }: Host, probationMs: number, nowMs: number): Host {
  if (probationMs === 0) return proven(host, nowMs);
  const stateMessage = `host ${host.hostId} is back from UNAVAILABLE: it is ONLINE after ${probationMs} ms of heartbeats`;
  const probationEndsAtMs = nowMs + probationMs;
  return { ...host, state: "WARNING", stateMessage, stateChangedAtMs: nowMs, probationEndsAtMs };
}

/** Ends the probation. The host becomes ONLINE, or stays WARNING while its agent reports a warning. */
function proven({ probationEndsAtMs: _, ...host }: Host, nowMs: number): Host {
  const { hostId, agentWarning } = host;
  if (agentWarning === undefined) return { ...host, state: "ONLINE", stateMessage: "", stateChangedAtMs: nowMs };
  return { ...host, state: "WARNING", stateMessage: `host ${hostId}: ${agentWarning}`, stateChangedAtMs: nowMs };
}

/** Returns the host with the agent's warning: its state is WARNING then, unless it is worse. */
export function withAgentWarning(host: Host, warning: string, nowMs: number): Host {
  const { agentWarning = "", ...rest } = host;
  if (agentWarning === warning) return host;
  const noted: Host = warning === "" ? rest : { ...rest, agentWarning: warning };
  return isAway(host) || host.probationEndsAtMs !== undefined ? noted : proven(noted, nowMs);
}

/** Returns hosts that have been heard for their whole probation. */
export function findProven(tables: RegistryTables, nowMs: number): readonly HostId[] {
  const hostIds: HostId[] = [];
  for (const host of tables.hosts.entries()) if (probationIsOver(host, nowMs)) hostIds.push(host.hostId);
  return hostIds;
}

export function endProbation(tx: RegistryTransaction, hostIds: readonly HostId[], nowMs: number): void {
  for (const hostId of hostIds) {
    const host = tx.hosts.get(hostId);
    if (host === undefined || !probationIsOver(host, nowMs)) continue;
    tx.hosts.put(proven(host, nowMs));
  }
}

function probationIsOver({ state, probationEndsAtMs }: Host, nowMs: number): boolean {
  return state === "WARNING" && probationEndsAtMs !== undefined && probationEndsAtMs <= nowMs;
}

export function findSuspected(tables: RegistryTables, whySuspected: WhySuspected): ReadonlySet<HostId> {
  const suspected = new Set<HostId>();
  for (const { hostId } of tables.hosts.entries()) if (whySuspected(hostId) !== undefined) suspected.add(hostId);
  return suspected;
}

export interface Silence {
  /** Hosts to mark UNAVAILABLE. */
  readonly silent: readonly HostId[];
  /** Hosts of a mass silence, which are not marked UNAVAILABLE. */
  readonly massSilent: readonly HostId[];
}

/**
 * Finds hosts that have been silent for `timeoutMs`, without those in maintenance. Returns them as a mass silence when
 * more than half of ten or more hosts are silent. That count includes hosts within `intervalMs` of the timeout and hosts
 * marked during the last `timeoutMs`: hosts cut off at the same moment reach the timeout up to one heartbeat interval
 * apart, and the first ones would otherwise be marked before the others are noticed.
 */
export function findSilent(
  tables: RegistryTables,
  silentForMs: (hostId: HostId) => number,
  { timeoutMs, intervalMs }: { readonly timeoutMs: number; readonly intervalMs: number },
  nowMs: number,
): Silence {
  const silent: HostId[] = [];
  let quiet = 0;
  let heardBefore = 0;
  let recentlyLost = 0;
  for (const host of tables.hosts.entries()) {
    if (host.state === "DEAD" || host.maintenance !== undefined) continue;
    if (host.state === "UNAVAILABLE") {
      if (nowMs - host.stateChangedAtMs < timeoutMs) recentlyLost++;
      continue;
    }
    heardBefore++;
    const silentMs = silentForMs(host.hostId);
    if (silentMs > timeoutMs - intervalMs) quiet++;
    if (silentMs > timeoutMs) silent.push(host.hostId);
  }
  const inWindow = heardBefore + recentlyLost;
  const massSilence = inWindow >= MASS_SILENCE_MIN_HOSTS && (quiet + recentlyLost) * 2 > inWindow;
  return massSilence ? { silent: [], massSilent: silent } : { silent, massSilent: [] };
}

/** An ongoing mass silence. */
export interface MassSilence {
  /** Number of silent hosts when `overAtMs` was last set. */
  readonly fewestSilent: number;
  /**
   * Monotonic time in ms at which the mass silence ends, and hosts that are still silent are marked UNAVAILABLE. A host
   * that comes back postpones it.
   */
  readonly overAtMs: number;
}

/** Stands for the number of silent hosts after a takeover, which only the former leader knew. */
const UNKNOWN_SILENT = Number.POSITIVE_INFINITY;

/**
 * Returns the mass silence that ran under the former leader. It lasts at least the timeout plus an interval, because no
 * host can reach the timeout earlier under the new leader.
 */
export function inheritedMassSilence(timeoutMs: number, intervalMs: number, monotonicMs: number): MassSilence {
  return { fewestSilent: UNKNOWN_SILENT, overAtMs: monotonicMs + timeoutMs + intervalMs };
}

/**
 * Applies the mass-outage guard to a sweep. Returns the hosts to mark or to spare, and the mass silence for the next
 * sweep (undefined when none is left). A mass silence goes on when no more than half of the hosts are silent, as long
 * as the number of silent hosts falls at least once per timeoutMs. Otherwise, after a takeover, the last agents to
 * register would be marked UNAVAILABLE.
 */
export function afterMassSilence(
  found: Silence,
  before: MassSilence | undefined,
  timeoutMs: number,
  monotonicMs: number,
): { readonly silence: Silence; readonly mass: MassSilence | undefined } {
  const { silent, massSilent } = found;
  const overAtMs = monotonicMs + timeoutMs;
  if (massSilent.length > 0) return { silence: found, mass: { fewestSilent: massSilent.length, overAtMs } };
  if (before === undefined) return { silence: found, mass: undefined };
  // Keeps the former leader's mass silence until the first timeout of this leader, which counts all hosts as heard when
  // it loads the tablet and so detects no silence earlier.
  const mayBeSilent = before.fewestSilent === UNKNOWN_SILENT && monotonicMs < before.overAtMs;
  if (silent.length === 0) return { silence: found, mass: mayBeSilent ? before : undefined };
  if (silent.length < before.fewestSilent) {
    return { silence: { silent: [], massSilent: silent }, mass: { fewestSilent: silent.length, overAtMs } };
  }
  if (monotonicMs >= before.overAtMs) return { silence: found, mass: undefined };
  return { silence: { silent: [], massSilent: silent }, mass: before };
}

/**
 * Returns DEAD hosts whose agents registered and fell silent again; these must register again before they get orders.
 */
export function findSilentDead(
  tables: RegistryTables,
  silentForMs: (hostId: HostId) => number,
  timeoutMs: number,
): readonly HostId[] {
  const silent: HostId[] = [];
  for (const { hostId, state, mustRegister } of tables.hosts.entries())
    if (state === "DEAD" && !mustRegister && silentForMs(hostId) > timeoutMs) silent.push(hostId);
  return silent;
}

/** Returns the reason and author of a fence for an UNAVAILABLE host. */
export function silenceWord(tables: RegistryTables, hostId: HostId, nowMs: number): FenceWord {
  return { by: "disk-registry", atMs: nowMs, reason: tables.hosts.get(hostId)?.stateMessage ?? "" };
}

/**
 * Marks hosts UNAVAILABLE. Returns the hosts that it changed, because a host may have been purged, declared DEAD or put
 * into maintenance since the sweep.
 */
export function markUnavailable(
  tx: RegistryTransaction,
  hostIds: readonly HostId[],
  timeoutMs: number,
  nowMs: number,
): readonly HostId[] {
  const marked: HostId[] = [];
  for (const hostId of hostIds) {
    const host = tx.hosts.get(hostId);
    if (host === undefined || isAway(host) || host.maintenance !== undefined) continue;
    marked.push(hostId);
    const stateMessage = `host ${hostId} is UNAVAILABLE: no heartbeat for ${timeoutMs / 1_000} s`;
    const { probationEndsAtMs: _, silentAtListenedMs: __, ...heardBefore } = host;
    tx.hosts.put({ ...heardBefore, state: "UNAVAILABLE", stateMessage, stateChangedAtMs: nowMs });
  }
  return marked;
}
