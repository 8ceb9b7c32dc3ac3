import { InvalidStateError } from "@diskmesh/domain";
import { networkNamed } from "../specs/cloud-config.js";
import type { GroupNetwork } from "../specs/instance-group.js";
import { bitsOf, contains, formatIp, type Ip, parseIp } from "../specs/ip.js";
import { freeAddresses, isFree, type Network, rangeOf, type Subnet } from "../specs/subnets.js";
import type { Json, JsonObject } from "../store/json.js";

/** Returns the candidate addresses of a subnet, lowest first. */
export type FreeIn = (subnet: Subnet) => Iterable<Ip>;

export interface NetworkNeeds {
  readonly group: string;
  readonly index: number;
  readonly az: string;
  /** Addresses by network name; the instance keeps them. */
  readonly ips: Readonly<Record<string, string>>;
  /**
   * Returns the candidate addresses of a subnet, lowest first. Absent means every address that no manifest reserves.
   */
  readonly freeIn?: FreeIn | undefined;
  /** Returns true when another instance has the address on the network. */
  readonly isTaken: (network: string, ip: string) => boolean;
  /**
   * Returns true when another deployment has the address. Within the deployment, an instance that holds another
   * instance's static address gives the address up.
   */
  readonly isForeign: (network: string, ip: string) => boolean;
}

/** Prefix in dynamic networks, which are IPv4 only in BOSH. */
const ONE_IPV4_ADDRESS = "32";

/**
 * Returns the `prefix` for CPIs: the size of the VM's own block, not of the subnet. Some CPIs treat any other value as
 * a request for a block of addresses and then fail to find an address in it.
 */
function prefixOf(ip: string): string {
  return String(bitsOf(parseIp(ip)));
}

/** The networks argument of create_vm and the addresses that the instance owns from now on. */
export interface SettledNetworks {
  readonly networks: JsonObject;
  readonly ips: Readonly<Record<string, string>>;
}

/** Throws InvalidStateError when a network does not exist or has no address for the instance. */
export function settleNetworks(
  wanted: readonly GroupNetwork[],
  known: readonly Network[],
  needs: NetworkNeeds,
): SettledNetworks {
  const networks: Record<string, Json> = {};
  const ips: Record<string, string> = {};
  for (const use of wanted) {
    const network = networkNamed(known, use.name);
    const defaults = wanted.length === 1 && use.default.length === 0 ? ["dns", "gateway"] : use.default;
    const settled = settleOne(use, network, needs);
    if (settled.ip !== "") ips[use.name] = settled.ip;
    networks[use.name] = {
      ...settled.argument,
      ...(use.nicGroup !== "" && { nic_group: use.nicGroup }),
      ...(network.type === "vip" || defaults.length === 0 ? {} : { default: [...defaults] }),
    };
  }
  return { networks, ips };
}

function settleOne(
  use: GroupNetwork,
  network: Network,
  needs: NetworkNeeds,
): { readonly ip: string; readonly argument: JsonObject } {
  if (network.type === "vip") {
    const ip = staticIp(use, needs);
    if (ip === undefined) throw new InvalidStateError(`vip network \`${use.name}\` needs static_ips in the manifest`);
    return { ip, argument: { type: "vip", ip, prefix: prefixOf(ip), cloud_properties: network.cloudProperties } };
  }
  const subnets = network.subnets.filter((subnet) => subnet.azs.length === 0 || subnet.azs.includes(needs.az));
  if (network.type === "dynamic") {
    const [{ dns, cloudProperties } = network] = subnets;
    const argument = {
      type: "dynamic",
      prefix: ONE_IPV4_ADDRESS,
      cloud_properties: cloudProperties,
      ...(dns.length > 0 && { dns: [...dns] }),
    };
    return { ip: "", argument };
  }
  const ip = staticIp(use, needs) ?? freeIp(use.name, subnets, needs);
  const address = parseIp(ip);
  const subnet = subnets.find((each) => {
    const range = rangeOf(each);
    return range !== undefined && contains(range, address);
  });
  const range = subnet && rangeOf(subnet);
  if (subnet === undefined || range === undefined) {
    throw new InvalidStateError(`address ${ip} is in no subnet of network \`${use.name}\`${inAz(needs)}`);
  }
  const { gateway, dns, cloudProperties } = subnet;
  return {
    ip,
    argument: {
      type: "manual",
      ip,
      prefix: prefixOf(ip),
      netmask: range.netmask,
      cloud_properties: cloudProperties,
      ...(dns.length > 0 && { dns: [...dns] }),
      ...(gateway !== "" && { gateway }),
    },
  };
}

function inAz({ az }: NetworkNeeds): string {
  return az === "" ? "" : ` in AZ \`${az}\``;
}

function staticIp(use: GroupNetwork, needs: NetworkNeeds): string | undefined {
  if (use.staticIps.length === 0) return undefined;
  const ip = use.staticIps[needs.index];
  if (ip === undefined) {
    throw new InvalidStateError(
      `instance group \`${needs.group}\` has ${use.staticIps.length} static_ips in network \`${use.name}\`: instance ${needs.index} needs a static ip, too`,
    );
  }
  if (needs.isForeign(use.name, ip))
    throw new InvalidStateError(`address ${ip} of network \`${use.name}\` already belongs to another instance`);
  return ip;
}

function freeIp(network: string, subnets: readonly Subnet[], needs: NetworkNeeds): string {
  const kept = needs.ips[network];
  for (const subnet of subnets) {
    if (kept !== undefined && isFree(subnet, parseIp(kept)) && !needs.isTaken(network, kept)) return kept;
  }
  for (const subnet of subnets) {
    for (const ip of (needs.freeIn ?? freeAddresses)(subnet)) {
      const text = formatIp(ip);
      if (!needs.isTaken(network, text)) return text;
    }
  }
  throw new InvalidStateError(
    `network \`${network}\` has no free address${inAz(needs)}: enlarge a subnet or reserve less`,
    { reason: "NO_FREE_ADDRESS", about: { network, az: needs.az } },
  );
}
