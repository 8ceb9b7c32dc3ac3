import { join } from "node:path";
import { type Identity, identityUri } from "@diskmesh/domain";
import { mbusPermissions } from "./permissions.js";

/** Somebody whom the NATS server lets in. */
export interface ServerUser {
  readonly identity: Identity;
  /** SHA-256 of the public keys that its certificates may have, in hex. */
  readonly pins: readonly string[];
}

/** The files of a folder that nats-server's configuration includes: the first in `authorization`, the second in `tls`. */
const FILES = { authorization: "authorization.conf", tls: "tls.conf", authorities: "ca.pem" } as const;
const CLUSTER_FILE = "cluster-tls.conf";

/**
 * Stands among the keys for as long as nats-server is to be told once more: with each reload that changes the keys it
 * closes connections of such as were not among the former ones (2.9 to 2.12), so of those left out now only with the next.
 */
const PIN_OF_NO_KEY = "0".repeat(64);
/** Stands there when nobody is to be let in: to nats-server an empty list is none, and it would let in everybody. */
const PIN_OF_NOBODY = "f".repeat(64);
const NOBODYS_PINS = [PIN_OF_NO_KEY, PIN_OF_NOBODY];

/**
 * What nats-server is told, by file of the folder, of those whom it lets in: each certificate's own subjects, the keys of
 * all, and whose signatures count. verify_and_map takes the first of a certificate's e-mail addresses, DNS names and URIs
 * that is a user, so of one with two identities the first: only keys that somebody vouches for are let in.
 *
 * `formerTls` is what `serverTlsFile` held before; see `isToldOnceMore`.
 */
export function serverUsersFiles(
  folder: string,
  users: readonly ServerUser[],
  authorityPems: readonly string[],
  formerTls = "",
): ReadonlyMap<string, string> {
  // One may come by several certificates, and is one user.
  const identities = new Map(users.map(({ identity }) => [identityUri(identity), identity]));
  const authorities = join(folder, FILES.authorities);
  return new Map([
    [authorities, authorityPems.map((pem) => `${pem.trimEnd()}\n`).join("")],
    [serverTlsFile(folder), pinned(authorities, users, formerTls)],
    [
      join(folder, FILES.authorization),
      `users: [${[...identities.values()].map((identity) => `\n  ${userOf(identity)}`).join("")}\n]\n`,
    ],
  ]);
}

/** The one of them that names the keys. */
export function serverTlsFile(folder: string): string {
  return join(folder, FILES.tls);
}

/**
 * Whether keys were left out that nats-server is to close connections of: once it has read the files it needs new ones,
 * and is to read those.
 */
export function isToldOnceMore(tls: string): boolean {
  return tls.includes(PIN_OF_NO_KEY);
}

/**
 * The same for `tls` of `cluster`: which servers are let into the cluster. Without their keys whoever has a certificate of
 * the mesh could come as a server, and would be told everything.
 */
export function serverClusterFile(
  folder: string,
  servers: readonly ServerUser[],
): readonly [file: string, text: string] {
  return [join(folder, CLUSTER_FILE), `verify: true\n${pinned(join(folder, FILES.authorities), servers)}`];
}

function pinned(authorities: string, holders: readonly ServerUser[], formerTls = ""): string {
  const pins = new Set(holders.flatMap((holder) => holder.pins));
  const formerPins = formerTls.match(/(?<=")[0-9a-f]{64}(?=")/g) ?? [];
  if (formerPins.some((pin) => !NOBODYS_PINS.includes(pin) && !pins.has(pin))) pins.add(PIN_OF_NO_KEY);
  if (pins.size === 0) pins.add(PIN_OF_NOBODY);
  return `ca_file: ${quote(authorities)}\npinned_certs: [${[...pins].map((pin) => `\n  ${quote(pin)}`).join("")}\n]\n`;
}

function userOf(identity: Identity): string {
  const { publish, subscribe } = mbusPermissions(identity);
  const list = (subjects: readonly string[]) => `[${subjects.map(quote).join(", ")}]`;
  return `{ user: ${quote(identityUri(identity))}, permissions: { publish: ${list(publish)}, subscribe: ${list(subscribe)} } }`;
}

// JSON strings are valid there.
function quote(text: string): string {
  return JSON.stringify(text);
}
