import { InvalidArgumentError, quoted } from "@diskmesh/domain";

/** IPv4 addresses as numbers, and ranges of them with both ends. */
export interface IpRange {
  readonly first: number;
  readonly last: number;
}

export function parseIp(text: string): number {
  const parts = text.split(".");
  if (parts.length === 4 && parts.every((part) => /^(0|[1-9][0-9]{0,2})$/.test(part) && Number(part) <= 255)) {
    return parts.reduce((value, part) => value * 256 + Number(part), 0);
  }
  throw new InvalidArgumentError(`${quoted(text)} is no IPv4 address`);
}

export function formatIp(ip: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(ip / 2 ** shift) % 256).join(".");
}

/** A network as "10.0.0.0/24". */
export function parseCidr(text: string): IpRange & { readonly prefix: number } {
  const match = /^([0-9.]+)\/([0-9]|[12][0-9]|3[0-2])$/.exec(text);
  if (match === null) throw new InvalidArgumentError(`${quoted(text)} is no range of IPv4 addresses like 10.0.0.0/24`);
  const prefix = Number(match[2]);
  const size = 2 ** (32 - prefix);
  const first = Math.floor(parseIp(match[1] as string) / size) * size;
  return { first, last: first + size - 1, prefix };
}

/** One address, "first - last" or a network. */
export function parseIpRange(text: string): IpRange {
  if (text.includes("/")) return parseCidr(text);
  const [first = "", last = first, more] = text.split("-").map((part) => part.trim());
  const range = { first: parseIp(first), last: parseIp(last) };
  if (more !== undefined || range.last < range.first)
    throw new InvalidArgumentError(`${quoted(text)} is no range of IPv4 addresses`);
  return range;
}

export function netmaskOf(prefix: number): string {
  return formatIp(2 ** 32 - 2 ** (32 - prefix));
}

export function contains(range: IpRange, ip: number): boolean {
  return ip >= range.first && ip <= range.last;
}
