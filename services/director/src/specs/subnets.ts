import type { JsonObject } from "../store/json.js";
import { type Cidr, contains, type Ip, type IpRange, parseCidr, parseIp, parseIpRange } from "./ip.js";

/** A subnet of a network in the cloud config. */
export interface Subnet {
  /** A CIDR block such as "10.0.0.0/24" or "2001:db8::/64"; empty for dynamic networks. */
  readonly range: string;
  readonly gateway: string;
  /** Empty for all AZs. */
  readonly azs: readonly string[];
  /** Addresses, ranges "first - last" or CIDR blocks. */
  readonly static: readonly string[];
  readonly reserved: readonly string[];
  readonly dns: readonly string[];
  readonly cloudProperties: JsonObject;
}

export interface Network {
  readonly name: string;
  readonly type: "manual" | "dynamic" | "vip";
  readonly subnets: readonly Subnet[];
  /** DNS servers of dynamic and vip networks without subnets. */
  readonly dns: readonly string[];
  readonly cloudProperties: JsonObject;
}

/** Caches a value derived from a part of a cloud config. Cloud configs are immutable. */
function once<Part extends object, Made>(make: (part: Part) => Made): (part: Part) => Made {
  const known = new WeakMap<Part, Made>();
  return (part) => {
    const made = known.get(part) ?? make(part);
    known.set(part, made);
    return made;
  };
}

/** Returns the subnet's range; undefined for dynamic networks. */
export const rangeOf = once((subnet: Subnet): Cidr | undefined =>
  subnet.range === "" ? undefined : parseCidr(subnet.range),
);

function inOrder<Range extends IpRange>(ranges: readonly Range[]): Range[] {
  return ranges.toSorted((a, b) => (a.first < b.first ? -1 : a.first > b.first ? 1 : 0));
}

/** Returns the ranges sorted and merged, without overlaps. */
function merged(ranges: readonly IpRange[]): readonly IpRange[] {
  const apart: IpRange[] = [];
  for (const { first, last } of inOrder(ranges)) {
    const before = apart.at(-1);
    if (before === undefined || before.last < first) apart.push({ first, last });
    else if (before.last < last) apart[apart.length - 1] = { first: before.first, last };
  }
  return apart;
}

/**
 * Returns a range that contains the address. `ranges` must be sorted by their first address and may overlap. A binary
 * search finds the last range that begins at or below the address; earlier ranges are tried next, because they may be
 * longer.
 */
function rangeWith<Range extends IpRange>(ranges: readonly Range[], ip: Ip): Range | undefined {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ranges[middle] as Range).first <= ip) low = middle + 1;
    else high = middle;
  }
  for (let at = low - 1; at >= 0; at--) {
    const range = ranges[at] as Range;
    if (contains(range, ip)) return range;
  }
  return undefined;
}

const subnetsOf = once((network: Network) =>
  inOrder(
    network.subnets.flatMap((subnet) => {
      const range = rangeOf(subnet);
      return range === undefined ? [] : [{ ...range, subnet }];
    }),
  ),
);

/** Returns the subnet of a manual network that contains the address. */
export function subnetOf(network: Network, ip: string): Subnet | undefined {
  return rangeWith(subnetsOf(network), parseIp(ip))?.subnet;
}

const reservedIn = once((subnet: Subnet) => merged(subnet.reserved.map(parseIpRange)));
const staticIn = once((subnet: Subnet) => merged(subnet.static.map(parseIpRange)));

/** Returns why the address must not be assigned to an instance; empty when it may. */
export function whyKept(subnet: Subnet, ip: Ip): string {
  const { gateway } = subnet;
  const range = rangeOf(subnet);
  if (range !== undefined && (ip === range.first || ip === range.last)) return "the subnet's own address";
  if (gateway !== "" && ip === parseIp(gateway)) return "the subnet's gateway";
  return rangeWith(reservedIn(subnet), ip) === undefined ? "" : "reserved in its subnet";
}

export function isStatic(subnet: Subnet, ip: Ip): boolean {
  return rangeWith(staticIn(subnet), ip) !== undefined;
}

/**
 * Addresses that are not assigned automatically: network and broadcast address, gateway, reserved and static ranges.
 */
const keptIn = once((subnet: Subnet) => {
  const one = (ip: Ip): IpRange => ({ first: ip, last: ip });
  const range = rangeOf(subnet);
  const own = range === undefined ? [] : [one(range.first), one(range.last)];
  const gateway = subnet.gateway === "" ? [] : [one(parseIp(subnet.gateway))];
  return merged([...own, ...gateway, ...staticIn(subnet), ...reservedIn(subnet)]);
});

/** Returns an inconsistency within the subnet, e.g. a reserved static address; empty for none. */
export function faultOf(subnet: Subnet): string {
  const range = rangeOf(subnet);
  if (range === undefined) return "";
  const within = (inner: IpRange): boolean => inner.first >= range.first && inner.last <= range.last;
  if (subnet.gateway !== "") {
    const gateway = parseIp(subnet.gateway);
    if (!contains(range, gateway)) return "its gateway is outside of its range";
    if (gateway === range.first || gateway === range.last) return "its gateway is the subnet's own address";
  }
  if (!reservedIn(subnet).every(within)) return "it reserves addresses outside of its range";
  if (!staticIn(subnet).every(within)) return "it has static addresses outside of its range";
  if (staticIn(subnet).some((each) => contains(each, range.first) || contains(each, range.last)))
    return "one of its static addresses is the subnet's own address";
  if (subnet.gateway !== "" && isStatic(subnet, parseIp(subnet.gateway)))
    return "one of its static addresses is its gateway";
  return overlap(staticIn(subnet), reservedIn(subnet)) ? "some of its static addresses are reserved" : "";
}

/** Returns true when two sorted lists of disjoint ranges overlap. */
function overlap(some: readonly IpRange[], others: readonly IpRange[]): boolean {
  let at = 0;
  for (const { first, last } of some) {
    while (at < others.length && (others[at] as IpRange).last < first) at++;
    if (at < others.length && (others[at] as IpRange).first <= last) return true;
  }
  return false;
}

/** Returns true when two subnets of the network overlap. */
export function hasOverlap(network: Network): boolean {
  const subnets = subnetsOf(network);
  return subnets.some(({ first }, index) => (subnets[index - 1]?.last ?? -1n) >= first);
}

/**
 * Yields the assignable addresses, lowest first. Skips kept ranges as a whole, because a short cloud config may reserve
 * huge ranges.
 */
export function* freeAddresses(subnet: Subnet): Generator<Ip> {
  const range = rangeOf(subnet);
  if (range === undefined) return;
  let ip = range.first;
  for (const kept of keptIn(subnet)) {
    for (; ip < kept.first && ip <= range.last; ip++) yield ip;
    if (kept.last >= ip) ip = kept.last + 1n;
  }
}

/** Returns true when the address may be assigned to an instance without a static address. */
export function isFree(subnet: Subnet, ip: Ip): boolean {
  const range = rangeOf(subnet);
  return range !== undefined && contains(range, ip) && rangeWith(keptIn(subnet), ip) === undefined;
}
