import type { HostId } from "@diskmesh/domain";
import { whyNotTold } from "../devices/orders.js";
import { type Host, isSound } from "../store/schema.js";

/**
 * Returns why a host is suspected of silence (heartbeats are missing); undefined when it is not. Suspicions are kept in
 * memory only.
 */
export type WhySuspected = (hostId: HostId) => string | undefined;

export const NOBODY_SUSPECTED: WhySuspected = () => undefined;

/** Returns whether a new disk or VM may be placed on the host. */
export function isPlaceable(host: Host, whySuspected: WhySuspected): boolean {
  return isSound(host) && whySuspected(host.hostId) === undefined;
}

/**
 * Returns why nothing new is requested of the host: it gets no orders, or it is suspected of silence. Returns undefined
 * otherwise.
 */
export function whyNotAsked(host: Host, whySuspected: WhySuspected): string | undefined {
  return whyNotTold(host) ?? whySuspected(host.hostId);
}

/** Returns why no new disk or VM may be placed on the host, as the end of a sentence; undefined when it may. */
export function whyNotPlaceable(host: Host, whySuspected: WhySuspected, nowMs: number): string | undefined {
  if (host.removalRequested) return "is to be removed";
  if (host.cordoned !== undefined) return `is cordoned by ${host.cordoned.by} (${host.cordoned.reason})`;
  if (host.maintenance !== undefined) return `is in maintenance by ${host.maintenance.by} (${host.maintenance.reason})`;
  if (host.state !== "ONLINE") return `is ${host.state} for ${Math.round((nowMs - host.stateChangedAtMs) / 1_000)} s`;
  if (host.mustRegister) return "must register again";
  return whySuspected(host.hostId);
}
