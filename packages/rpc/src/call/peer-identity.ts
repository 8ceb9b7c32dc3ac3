import type { Http2Session, ServerHttp2Stream } from "node:http2";
import type { TLSSocket } from "node:tls";
import { formatIdentity, type Identity, UnavailableError } from "@diskmesh/domain";
import { identityOfAlternativeNames } from "@diskmesh/tls";

/** Who is at the other end of a connection. */
export interface Caller {
  readonly identity: Identity;
  /** The identity in one text, e.g. `disk-agent host-1`. */
  readonly name: string;
  /** Of its certificate, in hex. */
  readonly serialNumber: string;
}

const CALLER = Symbol("diskmesh caller");

interface Identified {
  [CALLER]?: Caller;
}

/**
 * Reads who is at the other end of a connection from its certificate, and keeps that with the connection. Undefined when the
 * certificate names no identity of diskmesh.
 */
export function identify(socket: TLSSocket & Identified): Caller | undefined {
  // Not getPeerCertificate, which takes all fields apart: that took a good part of each handshake.
  const certificate = socket.getPeerX509Certificate();
  const identity = identityOfAlternativeNames(certificate?.subjectAltName);
  if (certificate === undefined || identity === undefined) return undefined;
  const caller = { identity, name: formatIdentity(identity), serialNumber: certificate.serialNumber };
  socket[CALLER] = caller;
  return caller;
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
