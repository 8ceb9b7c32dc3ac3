import { InvalidArgumentError, quoted } from "@diskmesh/domain";

/**
 * An IP address as a bigint. IPv6 addresses are offset above all IPv4 addresses, so that both families share an order
 * and no range contains addresses of both.
 */
export type Ip = bigint;

/** A range including both ends. */
export interface IpRange {
  readonly first: Ip;
  readonly last: Ip;
}

/** A CIDR block such as "10.0.0.0/24" or "2001:db8::/64". */
export interface Cidr extends IpRange {
  readonly prefix: number;
  readonly netmask: string;
}

const FIRST_IPV6 = 2n ** 128n;

/** Returns the number of bits of an address of the same family. */
export function bitsOf(ip: Ip): 32 | 128 {
  return ip < FIRST_IPV6 ? 32 : 128;
}

export function parseIp(text: string): Ip {
  const ip = text.includes(":") ? parseIpv6(text) : parseIpv4(text);
  if (ip === undefined) throw new InvalidArgumentError(`${quoted(text)} is not an IPv4 or IPv6 address`);
  return ip;
}

function parseIpv4(text: string): Ip | undefined {
  const parts = text.split(".");
  if (parts.length !== 4 || !parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255))
    return undefined;
  return parts.reduce((value, part) => value * 256n + BigInt(part), 0n);
}

function parseIpv6(text: string): Ip | undefined {
  const shortest = shortestIpv6(text);
  if (shortest === undefined) return undefined;
  const [head = [], tail = []] = shortest.split("::").map((half) => half.split(":").filter((group) => group !== ""));
  const groups = [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => "0"), ...tail];
  return groups.reduce((value, group) => value * 0x10000n + BigInt(`0x${group}`), 1n);
}

/**
 * Returns the RFC 5952 form. The URL parser accepts every form of an IPv6 address, including an embedded IPv4 address.
 */
function shortestIpv6(text: string): string | undefined {
  const url = `http://[${text}]`;
  return /^[0-9a-f:.]+$/i.test(text) && URL.canParse(url) ? new URL(url).hostname.slice(1, -1) : undefined;
}

export function formatIp(ip: Ip): string {
  const isIpv6 = ip >= FIRST_IPV6;
  const [bits, parts] = isIpv6 ? [16n, 8] : [8n, 4];
  const numbers = Array.from({ length: parts }, (_, index) =>
    BigInt.asUintN(Number(bits), ip >> (bits * BigInt(parts - 1 - index))),
  );
  if (!isIpv6) return numbers.join(".");
  return shortestIpv6(numbers.map((number) => number.toString(16)).join(":")) as string;
}

export function parseCidr(text: string): Cidr {
  const match = /^([^/]*)\/([0-9]|[1-9][0-9]|1[0-2][0-9])$/.exec(text);
  const ip = match === null ? undefined : parseIp(match[1] as string);
  const prefix = Number(match?.[2]);
  if (ip === undefined || prefix > bitsOf(ip))
    throw new InvalidArgumentError(`${quoted(text)} is not an address range such as 10.0.0.0/24 or 2001:db8::/64`);
  const hostBits = BigInt(bitsOf(ip) - prefix);
  const first = (ip >> hostBits) << hostBits;
  const last = first + (1n << hostBits) - 1n;
  return { first, last, prefix, netmask: formatIp(netmask(ip, hostBits)) };
}

function netmask(ip: Ip, hostBits: bigint): Ip {
  const bits = BigInt(bitsOf(ip));
  const mask = (1n << bits) - (1n << hostBits);
  return bits === 32n ? mask : FIRST_IPV6 + mask;
}

/** Parses a single address, "first - last" or a CIDR block. */
export function parseIpRange(text: string): IpRange {
  if (text.includes("/")) return parseCidr(text);
  const [first = "", last = first, more] = text.split("-").map((part) => part.trim());
  const range = { first: parseIp(first), last: parseIp(last) };
  if (more !== undefined || range.last < range.first || bitsOf(range.first) !== bitsOf(range.last))
    throw new InvalidArgumentError(`${quoted(text)} is not an address range`);
  return range;
}

export function contains(range: IpRange, ip: Ip): boolean {
  return ip >= range.first && ip <= range.last;
}
