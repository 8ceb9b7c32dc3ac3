import { lookup } from "node:dns/promises";
import { isIP } from "node:net";

/** Returns the address of a host, which may be an address already. Throws when the name cannot be resolved. */
export async function ipAddressOf(host: string): Promise<string> {
  return isIP(host) === 0 ? (await lookup(host)).address : host;
}
