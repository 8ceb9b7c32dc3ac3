import type { HostId } from "@diskmesh/domain";
import type { AgentMemory } from "./memory.js";

/** Names of the agents' interfaces begin with this. */
export const INTERFACE_PREFIX = "dm-wg-";
/** First 48 bits of the addresses inside WireGuard. */
export const INNER_NETWORK = "fd64:6973:6b6d";

/** Returns whether the text is a public key of WireGuard: 32 bytes in Base64. */
export function isPublicKey(text: string): boolean {
  return /^[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$/.test(text);
}

/**
 * Returns the keys of peers: those with one of the addresses, and strays. `shown` is the output of
 * `wg show INTERFACE allowed-ips`: a line with key and addresses for each peer.
 */
export function dividePeers(
  shown: string,
  addresses: ReadonlySet<string>,
): { readonly wanted: readonly string[]; readonly strays: readonly string[] } {
  const peers = shown.split("\n").flatMap((line) => {
    const [key = "", allowed = ""] = line.split("\t");
    return isPublicKey(key) ? [{ key, isWanted: addresses.has(allowed.replace(/\/128$/, "")) }] : [];
  });
  const keysOf = (isWanted: boolean) => peers.filter((peer) => peer.isWanted === isWanted).map(({ key }) => key);
  return { wanted: keysOf(true), strays: keysOf(false) };
}

/** Returns the hosts that hold sessions on devices of this host, of those sessions that are served. */
export function holdersOf(memory: AgentMemory, isServed: (sessionNumber: number) => boolean): readonly HostId[] {
  return [...memory.devices.values()]
    .flatMap(({ sessions = [] }) => sessions)
    .filter(
      ({ number, ended, holderHostId }) => !ended && !["", memory.hostId].includes(holderHostId) && isServed(number),
    )
    .map(({ holderHostId }) => holderHostId as HostId);
}

/**
 * Returns the commands of nft that replace the rules of a host. Packets to an address inside WireGuard come and go through
 * WireGuard alone; on this host only processes of root, and the kernel, send them. Peers can begin TCP connections to the port
 * of NVMe/TCP alone, and reach nothing through this host. No user id belongs to the kernel's own connections, so that the rule
 * about users does not match them. TCP and ICMPv6 are numbers, because hosts may have no /etc/protocols.
 */
export function filterRules({
  name,
  address,
  nvmePort,
}: {
  /** Name of the host's interface, and of the table. */
  readonly name: string;
  /** Address of the host inside WireGuard. */
  readonly address: string;
  readonly nvmePort: number;
}): string {
  return `table ip6 ${name}
delete table ip6 ${name}
table ip6 ${name} {
  chain input {
    type filter hook input priority filter
    ip6 daddr ${address} iifname != "lo" iifname != "${name}" drop
    iifname "${name}" meta l4proto != 6 meta l4proto != 58 drop
    iifname "${name}" tcp flags & (syn | ack) == syn tcp dport != ${nvmePort} drop
  }
  chain forward {
    type filter hook forward priority filter
    iifname "${name}" drop
    oifname "${name}" drop
  }
  chain output {
    type filter hook output priority filter
    ip6 daddr ${INNER_NETWORK}::/48 oifname != "lo" oifname != "${INTERFACE_PREFIX}*" drop
    ip6 daddr ${INNER_NETWORK}::/48 meta skuid != 0 drop
  }
}
`;
}
