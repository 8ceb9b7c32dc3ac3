import { InvalidArgumentError } from "./errors.js";
import { quoted } from "./identifiers.js";

const HOST_PORT = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?)):(\d{1,5})$/;

/** Where a server is reached. */
export interface HostPort {
  /** A name or an address, without the brackets of IPv6. */
  readonly host: string;
  readonly port: number;
}

/** Reads "host:port" or "[IPv6]:port"; undefined when it is none. Port 0 is no place to reach. */
export function hostPortOf(text: string): HostPort | undefined {
  const [, address, name = "", digits] = HOST_PORT.exec(text) ?? [];
  const port = Number(digits);
  return port >= 1 && port <= 65_535 ? { host: address ?? name, port } : undefined;
}

/** The same of what must be one; `field` is its name in the request, for the error. */
export function parseHostPort(field: string, text: string): HostPort {
  const parsed = hostPortOf(text);
  if (parsed) return parsed;
  throw new InvalidArgumentError(`${field} ${quoted(text)} is malformed: give "host:port"`, { about: { field } });
}

/** The inverse of `hostPortOf`. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
