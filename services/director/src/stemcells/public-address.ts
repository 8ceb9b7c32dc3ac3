import { BlockList, isIPv4 } from "node:net";

/** Non-public IPv4 networks: host or site local, multicast, documentation and test. */
const SPECIAL_V4 = [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.0.2.0", 24],
  ["192.88.99.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["198.51.100.0", 24],
  ["203.0.113.0", 24],
  ["224.0.0.0", 4],
  ["240.0.0.0", 4],
] as const;
/** The public IPv6 block. */
const GLOBAL_V6 = ["2000::", 3] as const;
/** Non-public blocks within GLOBAL_V6: embedded IPv4 addresses, documentation and test. */
const SPECIAL_V6 = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["3fff::", 20],
] as const;

const special = new BlockList();
for (const [network, bits] of SPECIAL_V4) special.addSubnet(network, bits, "ipv4");
for (const [network, bits] of SPECIAL_V6) special.addSubnet(network, bits, "ipv6");
const global = new BlockList();
global.addSubnet(...GLOBAL_V6, "ipv6");

/** Returns true for an IP address of the public internet. */
export function isPublicAddress(address: string): boolean {
  if (isIPv4(address)) return !special.check(address, "ipv4");
  return global.check(address, "ipv6") && !special.check(address, "ipv6");
}
