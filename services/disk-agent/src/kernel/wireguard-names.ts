import { createHash } from "node:crypto";
import type { HostId } from "@diskmesh/domain";
import { INNER_NETWORK, INTERFACE_PREFIX } from "../model/wireguard.js";

/** The kernel takes names of 15 characters. */
const INTERFACE_HASH_LENGTH = 8;
const INNER_GROUPS = 5;

/** Returns the name of the WireGuard interface of the host's agent. */
export function interfaceOf(hostId: HostId): string {
  return INTERFACE_PREFIX + hashOf(hostId).slice(0, INTERFACE_HASH_LENGTH);
}

/** Returns the IPv6 address of the host inside WireGuard, as the kernel writes it. */
export function innerAddressOf(hostId: HostId): string {
  const hash = hashOf(hostId);
  // No group is 0, because the kernel writes several of those as "::".
  const groups = Array.from({ length: INNER_GROUPS }, (_, at) =>
    (Number.parseInt(hash.slice(4 * at, 4 * at + 4), 16) | 0x8000).toString(16),
  );
  return `${INNER_NETWORK}:${groups.join(":")}`;
}

function hashOf(hostId: HostId): string {
  return createHash("sha256").update(hostId).digest("hex");
}
