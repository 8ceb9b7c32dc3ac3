import type { Http2Session, ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import { formatIdentity, type Identity, UnavailableError } from "@diskmesh/domain";
import { identityOfAlternativeNames } from "@diskmesh/tls";

export interface Caller {
  readonly identity: Identity;
  /** The identity as one text, e.g. `disk-agent host-1`. */
  readonly name: string;
  /** Serial number of the certificate, in hex. */
  readonly serialNumber: string;
  /** End of the certificate's validity, in milliseconds since the epoch. */
  readonly endsAtMs: number;
}

const CALLER = Symbol("diskmesh caller");

interface Identified {
  [CALLER]?: Caller;
}

/**
 * Reads the caller of a connection from its certificate and stores it with the connection. Undefined when the
 * certificate names no identity of diskmesh.
 */
export function identify(socket: TLSSocket & Identified): Caller | undefined {
  // getPeerX509Certificate rather than getPeerCertificate, which parses all fields and took a large part of each
  // handshake.
  const certificate = socket.getPeerX509Certificate();
  const identity = identityOfAlternativeNames(certificate?.subjectAltName);
  if (certificate === undefined || identity === undefined) return undefined;
  const { serialNumber, validTo } = certificate;
  const caller = { identity, name: formatIdentity(identity), serialNumber, endsAtMs: Date.parse(validTo) };
  socket[CALLER] = caller;
  return caller;
}

/**
 * Returns the caller that `identify` found for the stream's connection. Throws UnavailableError when the connection is
 * gone.
 */
export function callerOfStream(stream: ServerHttp2Stream | undefined): Caller {
  const session = stream?.session as (Http2Session & Identified) | undefined;
  // Cached on the session as well, because Node reads the connection's properties through a slow proxy.
  if (session && !session.destroyed) session[CALLER] ??= (session.socket as Identified)[CALLER];
  const caller = session?.[CALLER];
  if (!caller) throw new UnavailableError("the connection was lost before the call was processed; nothing was done");
  return caller;
}
