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
