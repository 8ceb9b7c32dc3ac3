import type { TLSSocket } from "node:tls";
import { type Identity, parseIdentityUri, UnauthenticatedError } from "@diskmesh/domain";

/** The part of grpc-js's server calls that says who is at the other end. */
export interface PeerOfCall {
  getAuthContext(): { readonly sslPeerCertificate?: { readonly subjectaltname?: string } };
}

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

// Keyed by the TLS connection, whose certificate cannot change: parsing it takes about as long as a whole small call.
const identities = new WeakMap<object, Identity>();

/** Who makes this call. Throws UnauthenticatedError when the certificate names no identity of diskmesh. */
export function identityOfCall(call: PeerOfCall): Identity {
  const connection = connectionOf(call);
  const cached = connection && identities.get(connection);
  if (cached) return cached;
  const identity = identityOfAlternativeNames(call.getAuthContext().sslPeerCertificate?.subjectaltname);
  if (!identity)
    throw new UnauthenticatedError(
      "the client certificate names no identity: it needs one subject alternative name URI:spiffe://diskmesh/<role>",
    );
  if (connection) identities.set(connection, identity);
  return identity;
}

/**
 * grpc-js offers no public key for "the same connection", so this looks where 1.14 keeps it. Should a later version
 * keep it elsewhere, the answer is undefined and every call parses the certificate: slower, never wrong.
 */
export function connectionOf(call: PeerOfCall): TLSSocket | object | undefined {
  const inner = call as { call?: { stream?: { session?: unknown } } };
  const session = inner.call?.stream?.session;
  return typeof session === "object" && session !== null ? session : undefined;
}
