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

/** What a device's hardware failed with. */
export interface HardwareFailure extends HardwareError {
  readonly deviceId: DeviceId;
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
    throw new AbortedError(`what is known of host ${hostId} may be outdated: register again`, { about });
  }
  return host;
}

/**
 * An agent that obeys a predecessor never heard the answer to the registration that was taken in here, and has gone on with
 * that predecessor meanwhile. Throws what makes it register again: it would refuse every order.
 */
export function requireObeyed(
  leader: Leader,
  hostId: HostId,
  { tabletId, incarnation }: Pick<Remembered, "tabletId" | "incarnation">,
): void {
  if (incarnation === "" || (tabletId === leader.tabletId && incarnation === leader.incarnation)) return;
  throw new AbortedError(
    `the agent of host ${hostId} obeys incarnation ${incarnation}, which this registry took over from: register again`,
    { about: { host_id: hostId } },
  );
}

/** What a heartbeat tells. */
export interface AgentReport {
  readonly changed: readonly DeviceHealth[];
  readonly failed?: readonly HardwareFailure[];
  /** Why nothing new is to be placed on the host; empty when nothing is wrong with it. */
  readonly warning?: string;
}

/** A heartbeat that changes something: the host was silent before, or devices' health changed. */
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
    // Hardware that was swapped works, but is not the device: only a registration or AddDevice clears that. A device that
    // the last registration did not describe well may be other hardware, too.
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
 * The host is heard again. Nothing new is placed on it for a while: a host that comes and goes would get a disk each time
 * and take it away again.
 */
export function backFromUnavailable(host: Host, probationMs: number, nowMs: number): Host {
  if (probationMs === 0) return proven(host, nowMs);
  const stateMessage = `host ${host.hostId} is back from UNAVAILABLE: it is ONLINE when it was heard for ${probationMs} ms`;
  const probationEndsAtMs = nowMs + probationMs;
  return { ...host, state: "WARNING", stateMessage, stateChangedAtMs: nowMs, probationEndsAtMs };
}

/** Nothing is known against the host but what its agent says. */
function proven({ probationEndsAtMs: _, ...host }: Host, nowMs: number): Host {
  const { hostId, agentWarning } = host;
  if (agentWarning === undefined) return { ...host, state: "ONLINE", stateMessage: "", stateChangedAtMs: nowMs };
  return { ...host, state: "WARNING", stateMessage: `host ${hostId}: ${agentWarning}`, stateChangedAtMs: nowMs };
}

/** The host as its agent speaks of it: WARNING while that warns of it, if nothing worse is known. */
export function withAgentWarning(host: Host, warning: string, nowMs: number): Host {
  const { agentWarning = "", ...rest } = host;
  if (agentWarning === warning) return host;
  const noted: Host = warning === "" ? rest : { ...rest, agentWarning: warning };
  return isAway(host) || host.probationEndsAtMs !== undefined ? noted : proven(noted, nowMs);
}

/** Hosts that have been heard for as long as their probation lasts. */
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
  /** To become UNAVAILABLE. */
  readonly silent: readonly HostId[];
  /** Silent too, but so many at once that none is believed to be dead. */
  readonly massSilent: readonly HostId[];
}

/**
 * Which hosts have been silent for the timeout. With ten hosts or more, if more than half fall silent within one
 * window (those that were found silent during the last timeout count), none of them is changed. Hosts that are cut off
 * at the same moment were last heard at any moment of the interval before it, so all within an interval of the timeout
 * count: else those that reach it first would be changed before the others are noticed.
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
    // An operator has said what to believe of it.
    if (host.state === "DEAD") continue;
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

/** A mass silence that is not over. */
export interface MassSilence {
  /** The fewest hosts that were silent at once since it began. */
  readonly fewestSilent: number;
  /** By the monotonic clock: when those that are silent still count as dead, unless more are heard again before. */
  readonly overAtMs: number;
}

/** The leader before knew how many. */
const UNKNOWN_SILENT = Number.POSITIVE_INFINITY;

/** A mass silence that ran under the leader before: nobody can be silent for this one before the timeout. */
export function inheritedMassSilence(timeoutMs: number, intervalMs: number, monotonicMs: number): MassSilence {
  return { fewestSilent: UNKNOWN_SILENT, overAtMs: monotonicMs + timeoutMs + intervalMs };
}

/**
 * A mass silence is over only when its hosts have stopped coming back for the timeout. After a takeover, agents that
 * register one after the other are silent at first, and those still waiting when half are back would be taken for dead.
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
  // To a new leader all are as if just heard.
  const mayBeSilent = before.fewestSilent === UNKNOWN_SILENT && monotonicMs < before.overAtMs;
  if (silent.length === 0) return { silence: found, mass: mayBeSilent ? before : undefined };
  if (silent.length < before.fewestSilent) {
    return { silence: { silent: [], massSilent: silent }, mass: { fewestSilent: silent.length, overAtMs } };
  }
  if (monotonicMs >= before.overAtMs) return { silence: found, mass: undefined };
  return { silence: { silent: [], massSilent: silent }, mass: before };
}

/** DEAD hosts whose agents registered since, and fell silent again: nobody counts on them any more. */
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

/** Why disks are taken from a host that is UNAVAILABLE. */
export function silenceWord(tables: RegistryTables, hostId: HostId, nowMs: number): FenceWord {
  return { by: "disk-registry", atMs: nowMs, reason: tables.hosts.get(hostId)?.stateMessage ?? "" };
}

/** Returns those that it changed: a host may have been purged or said to be DEAD since it was found silent. */
export function markUnavailable(
  tx: RegistryTransaction,
  hostIds: readonly HostId[],
  timeoutMs: number,
  nowMs: number,
): readonly HostId[] {
  const marked: HostId[] = [];
  for (const hostId of hostIds) {
    const host = tx.hosts.get(hostId);
    if (host === undefined || isAway(host)) continue;
    marked.push(hostId);
    const stateMessage = `host ${hostId} is UNAVAILABLE: no heartbeat for ${timeoutMs} ms`;
    const { probationEndsAtMs: _, silentAtListenedMs: __, ...heardBefore } = host;
    tx.hosts.put({ ...heardBefore, state: "UNAVAILABLE", stateMessage, stateChangedAtMs: nowMs });
  }
  return marked;
}
