import type { Http2Session, ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import { formatIdentity, type Identity, parseIdentityUri, UnavailableError } from "@diskmesh/domain";

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

/** Who is at the other end of a connection. */
export interface Caller {
  readonly identity: Identity;
  /** The identity in one text, e.g. `disk-agent host-1`. */
  readonly name: string;
}

const CALLER = Symbol("diskmesh caller");

interface Identified {
  [CALLER]?: Caller;
}

/**
 * Reads who is at the other end of a connection from its certificate, and keeps that with the connection. False when the
 * certificate names no identity of diskmesh.
 */
export function identify(socket: TLSSocket & Identified): boolean {
  // Not getPeerCertificate, which takes all fields apart: that took a good part of each handshake.
  const identity = identityOfAlternativeNames(socket.getPeerX509Certificate()?.subjectAltName);
  if (identity) socket[CALLER] = { identity, name: formatIdentity(identity) };
  return identity !== undefined;
}

/**
 * Who opened a stream: what `identify` found when its connection was made. Throws UnavailableError when the connection is
 * gone.
 */
export function callerOfStream(stream: ServerHttp2Stream | undefined): Caller {
  const session = stream?.session as (Http2Session & Identified) | undefined;
  // Kept with the session, too: Node reads the connection's properties through a proxy, which takes its time.
  if (session && !session.destroyed) session[CALLER] ??= (session.socket as Identified)[CALLER];
  const caller = session?.[CALLER];
  if (!caller) throw new UnavailableError("the connection was lost before the call was looked at; nothing was done");
  return caller;
}

/** The stream of a call. grpc-js has no public way to it, so this looks where 1.14 keeps it. */
export function streamOfCall(call: object): ServerHttp2Stream | undefined {
  return (call as { call?: { stream?: ServerHttp2Stream } }).call?.stream;
}
