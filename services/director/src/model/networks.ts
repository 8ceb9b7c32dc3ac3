import { InvalidStateError } from "@diskmesh/domain";
import { contains, formatIp, type IpRange, netmaskOf, parseIp } from "./ip.js";
import type { Json, JsonObject } from "./json.js";
import { findNamed } from "./named.js";

/** Part of a network in the cloud config. */
export interface Subnet {
  /** Null with dynamic networks. */
  readonly range: (IpRange & { readonly prefix: number }) | null;
  readonly gateway: string;
  /** Empty for all. */
  readonly azs: readonly string[];
  readonly static: readonly IpRange[];
  readonly reserved: readonly IpRange[];
  readonly dns: readonly string[];
  readonly cloudProperties: JsonObject;
}

export interface Network {
  readonly name: string;
  readonly type: "manual" | "dynamic" | "vip";
  readonly subnets: readonly Subnet[];
  /** Of dynamic and vip networks without subnets. */
  readonly dns: readonly string[];
  readonly cloudProperties: JsonObject;
}

/** A network as an instance group uses it. */
export interface GroupNetwork {
  readonly name: string;
  readonly staticIps: readonly string[];
  /** Which of "dns" and "gateway" this network gives. */
  readonly default: readonly string[];
}

export interface NetworkNeeds {
  readonly group: string;
  readonly index: number;
  readonly az: string;
  /** By network name; an instance keeps its addresses. */
  readonly ips: Readonly<Record<string, string>>;
  /** Whether another instance has that address of that network. */
  readonly isTaken: (network: string, ip: string) => boolean;
}

const MOST_NAMES_LISTED = 10;

/**
 * The `prefix` that CPIs are told: the size of the block that is the VM's, not the subnet's. Some take any other value as
 * a wish for a block of addresses, and find no address in it.
 */
const ONE_ADDRESS = "32";

/** The networks argument of create_vm, and the addresses in it that are the instance's from now on. */
export function settleNetworks(
  wanted: readonly GroupNetwork[],
  known: readonly Network[],
  needs: NetworkNeeds,
): { readonly networks: JsonObject; readonly ips: Readonly<Record<string, string>> } {
  const networks: Record<string, Json> = {};
  const ips: Record<string, string> = {};
  for (const use of wanted) {
    const network = networkNamed(known, use.name);
    const defaults = wanted.length === 1 && use.default.length === 0 ? ["dns", "gateway"] : use.default;
    const settled = settleOne(use, network, needs);
    if (settled.ip !== "") ips[use.name] = settled.ip;
    networks[use.name] = {
      ...settled.argument,
      ...(network.type === "vip" || defaults.length === 0 ? {} : { default: [...defaults] }),
    };
  }
  return { networks, ips };
}

export function networkNamed(known: readonly Network[], name: string): Network {
  const network = findNamed(known, name);
  if (network !== undefined) return network;
  const names = known
    .slice(0, MOST_NAMES_LISTED)
    .map((each) => `\`${each.name}\``)
    .join(", ");
  throw new InvalidStateError(
    `network \`${name}\` is in no cloud config: ${names === "" ? "there are no networks" : `the networks are ${names}`}; update the cloud config`,
    { about: { network: name } },
  );
}

function settleOne(
  use: GroupNetwork,
  network: Network,
  needs: NetworkNeeds,
): { readonly ip: string; readonly argument: JsonObject } {
  if (network.type === "vip") {
    const ip = staticIp(use, needs);
    if (ip === undefined) throw new InvalidStateError(`vip network \`${use.name}\` needs static_ips in the manifest`);
    return { ip, argument: { type: "vip", ip, prefix: ONE_ADDRESS, cloud_properties: network.cloudProperties } };
  }
  const subnets = network.subnets.filter((subnet) => subnet.azs.length === 0 || subnet.azs.includes(needs.az));
  if (network.type === "dynamic") {
    const [{ dns, cloudProperties } = network] = subnets;
    const argument = {
      type: "dynamic",
      prefix: ONE_ADDRESS,
      cloud_properties: cloudProperties,
      ...(dns.length > 0 && { dns: [...dns] }),
    };
    return { ip: "", argument };
  }
  const ip = staticIp(use, needs) ?? freeIp(use.name, subnets, needs);
  const subnet = subnets.find((each) => each.range !== null && contains(each.range, parseIp(ip)));
  if (subnet?.range == null) {
    throw new InvalidStateError(`address ${ip} is in no subnet of network \`${use.name}\` in AZ \`${needs.az}\``);
  }
  const { gateway, dns, cloudProperties, range } = subnet;
  return {
    ip,
    argument: {
      type: "manual",
      ip,
      prefix: ONE_ADDRESS,
      netmask: netmaskOf(range.prefix),
      cloud_properties: cloudProperties,
      ...(dns.length > 0 && { dns: [...dns] }),
      ...(gateway !== "" && { gateway }),
    },
  };
}

function staticIp(use: GroupNetwork, needs: NetworkNeeds): string | undefined {
  if (use.staticIps.length === 0) return undefined;
  const ip = use.staticIps[needs.index];
  if (ip === undefined) {
    throw new InvalidStateError(
      `instance group \`${needs.group}\` has ${use.staticIps.length} static_ips in network \`${use.name}\`: instance ${needs.index} needs one, too`,
    );
  }
  if (needs.isTaken(use.name, ip))
    throw new InvalidStateError(`address ${ip} of network \`${use.name}\` is another instance's already`);
  return ip;
}

function freeIp(network: string, subnets: readonly Subnet[], needs: NetworkNeeds): string {
  const kept = needs.ips[network];
  for (const subnet of subnets) {
    if (kept !== undefined && isFree(subnet, parseIp(kept)) && !needs.isTaken(network, kept)) return kept;
  }
  for (const subnet of subnets) {
    for (const ip of freeAddresses(subnet)) {
      const text = formatIp(ip);
      if (!needs.isTaken(network, text)) return text;
    }
  }
  throw new InvalidStateError(
    `network \`${network}\` has no free address in AZ \`${needs.az}\`: enlarge a subnet or reserve less`,
    { about: { network, az: needs.az } },
  );
}

/** By subnet, which never changes. */
const keptRanges = new WeakMap<Subnet, readonly IpRange[]>();

/** The network's own addresses, its gateway's, and what operators keep for themselves: in order, none within another. */
function keptIn(subnet: Subnet, range: IpRange): readonly IpRange[] {
  const known = keptRanges.get(subnet);
  if (known !== undefined) return known;
  const one = (ip: number): IpRange => ({ first: ip, last: ip });
  const gateway = subnet.gateway === "" ? [] : [one(parseIp(subnet.gateway))];
  const all = [one(range.first), one(range.last), ...gateway, ...subnet.static, ...subnet.reserved];
  const ranges: IpRange[] = [];
  for (const each of all.sort((a, b) => a.first - b.first || b.last - a.last)) {
    if (each.last > (ranges.at(-1)?.last ?? -1)) ranges.push(each);
  }
  keptRanges.set(subnet, ranges);
  return ranges;
}

/** From the lowest. Goes from one kept range to the next: a few bytes of a cloud config can stand for all addresses. */
function* freeAddresses(subnet: Subnet): Generator<number> {
  const { range } = subnet;
  if (range === null) return;
  let ip = range.first;
  for (const kept of keptIn(subnet, range)) {
    for (; ip < kept.first && ip <= range.last; ip++) yield ip;
    ip = Math.max(ip, kept.last + 1);
  }
}

function isFree(subnet: Subnet, ip: number): boolean {
  const { range } = subnet;
  if (range === null || !contains(range, ip)) return false;
  const ranges = keptIn(subnet, range);
  // The last range that begins at or before the address: those before it end before it does.
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle] as IpRange).first <= ip) low = middle + 1;
    else high = middle;
  }
  const nearest = ranges[low - 1];
  return nearest === undefined || nearest.last < ip;
}
