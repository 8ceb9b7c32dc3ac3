import type { HostId } from "@diskmesh/domain";
import { advance } from "../devices/attach-states.js";
import { type Host, isAway, type RegistryTransaction } from "../store/schema.js";

export interface RegistryTime {
  /** Wall clock time, in ms. */
  readonly nowMs: number;
  /** `Vigil.listenedMs` up to now. */
  readonly listenedMs: number;
}

interface TimeoutLimits {
  readonly unavailableRemovalTimeoutMs: number;
}

/**
 * Returns the rest of the removal timeout in ms. Counts only time in which a leader listened for heartbeats, on
 * monotonic clocks.
 */
export function removalLeftMs({ state, silentAtListenedMs }: Host, timeoutMs: number, listenedMs: number): number {
  if (state === "DEAD") return 0;
  const silentMs = silentAtListenedMs === undefined ? 0 : Math.max(0, listenedMs - silentAtListenedMs);
  return Math.max(0, timeoutMs - silentMs);
}

/**
 * Returns when the removal stops waiting for the host's confirmation, if this registry leads and listens until then;
 * undefined for a host that is not away. A DEAD host's wait is over at once.
 */
export function removalTimesOutAtMs(
  host: Host,
  unavailableRemovalTimeoutMs: number,
  { nowMs, listenedMs }: RegistryTime,
): number | undefined {
  if (host.state === "DEAD") return host.stateChangedAtMs;
  if (host.state !== "UNAVAILABLE") return undefined;
  return nowMs + removalLeftMs(host, unavailableRemovalTimeoutMs, listenedMs);
}

/** Returns whether the removal no longer waits for this host's confirmation. */
export function removalTimedOut(host: Host, limits: TimeoutLimits, listenedMs: number): boolean {
  return isAway(host) && removalLeftMs(host, limits.unavailableRemovalTimeoutMs, listenedMs) === 0;
}

/**
 * Marks CLOSING devices DETACHED without confirmation when their host is DEAD, or UNAVAILABLE for too long. Returns
 * their number.
 */
export function giveUpOnHost(
  tx: RegistryTransaction,
  hostId: HostId,
  limits: TimeoutLimits,
  { nowMs, listenedMs }: RegistryTime,
): number {
  const host = tx.hosts.get(hostId);
  if (host === undefined || !removalTimedOut(host, limits, listenedMs)) return 0;
  let count = 0;
  for (const device of tx.devices.by("awaitingOrderByHost", hostId)) {
    if (device.attachState !== "CLOSING") continue;
    tx.devices.put(advance(tx, device, "removal_timeout", nowMs));
    count++;
  }
  return count;
}
