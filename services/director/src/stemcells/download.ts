import { type LookupAddress, type LookupOptions, lookup } from "node:dns";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import {
  InvalidArgumentError,
  messageOf,
  PermissionDeniedError,
  TimeoutError,
  UnavailableError,
} from "@diskmesh/domain";
import { isPublicAddress } from "./public-address.js";

interface Limits {
  readonly idleTimeoutMs: number;
  readonly downloadTimeoutMs: number;
  readonly allowPrivateAddresses: boolean;
  readonly maxUploadBytes: number;
}

const MAX_REDIRECTS = 5;
const MAX_LOCATION_LENGTH = 4_096;

/**
 * Throws InvalidArgumentError for anything but an http or https URL. Errors never quote the URL, because it may contain
 * secrets.
 */
export function parseLocation(text: string): URL {
  const url = text.length <= MAX_LOCATION_LENGTH && URL.canParse(text) ? new URL(text) : undefined;
  const about = { about: { field: "location" } };
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:"))
    throw new InvalidArgumentError("the stemcell's location is not an http or https URL", about);
  if (url.username !== "" || url.password !== "")
    throw new InvalidArgumentError(
      "the location of the stemcell must not hold a password: sign the URL instead",
      about,
    );
  return url;
}

/** DNS lookups, and the rule for reachable addresses. */
export interface Network {
  readonly lookup: (
    hostname: string,
    options: LookupOptions & { readonly all: true },
    found: (error: Error | null, addresses: LookupAddress[]) => void,
  ) => void;
  readonly isPublicAddress: (address: string) => boolean;
}

const INTERNET: Network = { lookup, isPublicAddress };

/**
 * Yields the bytes of a URL. Throws PermissionDeniedError for a private address, because the uploader may not be
 * allowed to reach the director's network. Throws UnavailableError for any failure to get the file.
 */
export async function* download(
  location: string,
  limits: Limits,
  signal: AbortSignal,
  network = INTERNET,
): AsyncGenerator<Buffer> {
  const { downloadTimeoutMs } = limits;
  const late = new TimeoutError(`the download took longer than ${downloadTimeoutMs} ms`);
  const stop = new AbortController();
  const timer = setTimeout(() => stop.abort(late), downloadTimeoutMs);
  const both = AbortSignal.any([signal, stop.signal]);
  try {
    yield* await follow(parseLocation(location), { limits, signal: both, network });
  } catch (error) {
    both.throwIfAborted();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

interface Way {
  readonly limits: Limits;
  readonly signal: AbortSignal;
  readonly network: Network;
}

async function follow(url: URL, way: Way, redirects = 0): Promise<AsyncIterable<Buffer>> {
  const response = await get(url, way);
  const { statusCode = 0, headers } = response;
  if (statusCode === 200) return pieces(response, url, way.limits);
  response.destroy();
  if (![301, 302, 303, 307, 308].includes(statusCode) || headers.location === undefined)
    throw new UnavailableError(`${url.host} answered with ${statusCode} instead of the stemcell`);
  if (redirects === MAX_REDIRECTS) throw new UnavailableError(`${url.host} redirects more than ${MAX_REDIRECTS} times`);
  const next = parseLocation(URL.canParse(headers.location, url.href) ? new URL(headers.location, url).href : "");
  if (url.protocol === "https:" && next.protocol !== "https:")
    throw new UnavailableError(`${url.host} redirects from https to http, which is refused`);
  return follow(next, way, redirects + 1);
}

function get(url: URL, { limits, signal, network }: Way): Promise<IncomingMessage> {
  const { idleTimeoutMs, allowPrivateAddresses } = limits;
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  // Checks literal addresses here, because Node does not call lookup for them.
  if (!allowPrivateAddresses && isIP(host) !== 0 && !network.isPublicAddress(host)) throw privateAddress(url.host);
  const request = url.protocol === "https:" ? httpsRequest : httpRequest;
  const options = {
    agent: false,
    signal,
    timeout: idleTimeoutMs,
    headers: { "accept-encoding": "identity", "user-agent": "diskmesh" },
    ...(!allowPrivateAddresses && { lookup: publicOnly(network) }),
  };
  return new Promise((resolve, reject) => {
    const getting = request(url, options, resolve);
    getting.once("timeout", () => getting.destroy(silence(url, idleTimeoutMs)));
    getting.on("error", (error) => reject(asFailure(error, url)));
    getting.end();
  });
}

async function* pieces(response: IncomingMessage, url: URL, { idleTimeoutMs }: Limits): AsyncGenerator<Buffer> {
  response.setTimeout(idleTimeoutMs, () => response.destroy(silence(url, idleTimeoutMs)));
  try {
    for await (const piece of response) yield piece as Buffer;
  } catch (error) {
    throw asFailure(error as Error, url);
  }
}

function silence(url: URL, idleTimeoutMs: number): TimeoutError {
  return new TimeoutError(`no data arrived from ${url.host} for ${idleTimeoutMs} ms`);
}

function asFailure(error: Error, url: URL): Error {
  if (error instanceof PermissionDeniedError || error instanceof TimeoutError) return error;
  return new UnavailableError(`the stemcell cannot be downloaded from ${url.host}: ${messageOf(error)}`, {
    cause: error,
  });
}

function privateAddress(host: string): PermissionDeniedError {
  return new PermissionDeniedError(
    `${host} is at a private address: upload the file, or allow it with stemcells.allowPrivateAddresses`,
  );
}

type Found = (error: Error | null, address: string | LookupAddress[], family?: number) => void;

/**
 * Returns a lookup that connects only to the checked addresses, so that a changed DNS answer cannot redirect the
 * connection.
 */
function publicOnly({ lookup: lookUp, isPublicAddress: isPublic }: Network) {
  return (hostname: string, options: LookupOptions, found: Found): void => {
    lookUp(hostname, { ...options, all: true }, (error, addresses) => {
      if (error !== null) return found(error, "");
      if (!addresses.every(({ address }) => isPublic(address))) return found(privateAddress(hostname), "");
      const [first] = addresses;
      if (options.all === true || first === undefined) return found(null, addresses);
      return found(null, first.address, first.family);
    });
  };
}
