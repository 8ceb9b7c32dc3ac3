import type { TLSSocket } from "node:tls";
import { type Identity, parseIdentityUri, UnavailableError } from "@diskmesh/domain";

/**
 * Who the certificate belongs to: the one identity URI among its subject alternative names. Undefined when there is
 * none, or more than one, so that nobody can have two roles.
 */
export function identityOfAlternativeNames(names: string | undefined): Identity | undefined {
  const identities = uriNames(names ?? "").map(parseIdentityUri);
  const [first] = identities;
  return identities.length === 1 ? first : undefined;
}

// Node joins names with ", " and puts a name that holds special characters in quotes, as a JSON string. Splitting at
// commas would let a DNS name such as `"a, URI:spiffe://..."` pass for a URI.
const ALTERNATIVE_NAME = /(?:^|, )([A-Za-z ]+):(?:"(?:[^"\\]|\\.)*"|([^",]*))/y;

function uriNames(names: string): string[] {
  const uris: string[] = [];
  ALTERNATIVE_NAME.lastIndex = 0;
  for (let end = 0; end < names.length; end = ALTERNATIVE_NAME.lastIndex) {
    const match = ALTERNATIVE_NAME.exec(names);
    if (!match) return [];
    if (match[1] === "URI") uris.push(match[2] ?? "");
  }
  return uris;
}

const IDENTITY = Symbol("diskmesh identity");

interface Identified {
  [IDENTITY]?: Identity;
}

/**
 * Reads who is at the other end of a connection from its certificate, and keeps that with the connection. Undefined when
 * the certificate names no identity of diskmesh.
 */
export function identify(socket: TLSSocket & Identified): Identity | undefined {
  // Not getPeerCertificate, which takes all fields apart: that took a good part of each handshake.
  const identity = identityOfAlternativeNames(socket.getPeerX509Certificate()?.subjectAltName);
  if (identity) socket[IDENTITY] = identity;
  return identity;
}

/**
 * Who makes this call: what `identify` found when its connection was made. grpc-js has no public way from a call to its
 * connection, so this looks where 1.14 keeps it.
 */
export function identityOfCall(call: object): Identity {
  const { session } = (call as { call?: { stream?: { session?: SessionOfCall } } }).call?.stream ?? {};
  const identity = session && !session.destroyed ? session.socket[IDENTITY] : undefined;
  if (!identity) throw new UnavailableError("the connection was lost before the call was looked at; nothing was done");
  return identity;
}

interface SessionOfCall {
  readonly destroyed: boolean;
  /** A proxy of Node's that passes on reads of the connection's properties. */
  readonly socket: Identified;
}
