import type { HostId } from "@diskmesh/domain";
import { whyNotTold } from "../devices/orders.js";
import type { Host } from "../store/schema.js";

/** Why a host is suspected of silence; undefined when it is not. Known in memory only. */
export type WhySuspected = (hostId: HostId) => string | undefined;

export const NOBODY_SUSPECTED: WhySuspected = () => undefined;

/** Whether something new may be placed on the host: a disk, or a VM. */
export function isPlaceable(host: Host, whySuspected: WhySuspected): boolean {
  const isSound = host.state === "ONLINE" && !host.mustRegister && !host.removalRequested;
  return isSound && whySuspected(host.hostId) === undefined;
}

/** Why the host is asked for nothing new now; undefined when it may be. */
export function whyNotAsked(host: Host, whySuspected: WhySuspected): string | undefined {
  return whyNotTold(host) ?? whySuspected(host.hostId);
}
