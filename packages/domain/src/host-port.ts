import { InvalidArgumentError } from "./errors.js";
import { quoted } from "./identifiers.js";

const HOST_PORT = /^(?:\[([0-9A-Fa-f:.]{2,45})\]|([A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?)):(\d{1,5})$/;

/** Address of a server, parsed from "host:port". */
export interface HostPort {
  /** A name or an address, without the brackets of IPv6. */
  readonly host: string;
  readonly port: number;
}

/**
 * Parses "host:port" or "[IPv6]:port"; returns undefined for other texts. Port 0 is refused, because no server can be
 * reached at it.
 */
export function hostPortOf(text: string): HostPort | undefined {
  const [, address, name = "", digits] = HOST_PORT.exec(text) ?? [];
  const port = Number(digits);
  return port >= 1 && port <= 65_535 ? { host: address ?? name, port } : undefined;
}

/** Parses like `hostPortOf`, and throws on other texts; `field` is the request's field, for the error. */
export function parseHostPort(field: string, text: string): HostPort {
  const parsed = hostPortOf(text);
  if (parsed) return parsed;
  throw new InvalidArgumentError(`${field} ${quoted(text)} is malformed: give "host:port"`, { about: { field } });
}

/** Formats an address; the inverse of `hostPortOf`. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
