import { createConnection, type Socket } from "node:net";
import { connect, createServer, type PeerCertificate, type TLSSocket } from "node:tls";
import { messageOf } from "@diskmesh/domain";
import { ByteReader } from "./byte-reader.js";
import { greetServer } from "./client-handshake.js";
import { decodeOptionReplyHeader, encodeOption, OPTION, OPTION_REPLY_HEADER_BYTES, REPLY } from "./protocol.js";

/**
 * TLS 1.3 always adds a Diffie-Hellman exchange to the key, so a key that leaks later decrypts no recorded traffic. A
 * pre-shared key is bound to SHA-256, and this is the cipher suite with it.
 */
const TLS = { minVersion: "TLSv1.3", maxVersion: "TLSv1.3", ciphers: "TLS_AES_128_GCM_SHA256" } as const;

/** Code of a `handshake_failure` alert. Its middle is SSLV3 up to OpenSSL 3.1, and SSL/TLS later. */
const UNKNOWN_IDENTITY = /^ERR_SSL_.*_ALERT_HANDSHAKE_FAILURE$/;

/** Server, and the identity and key that a client proves to have. */
export interface TlsTarget {
  readonly host: string;
  readonly port: number;
  readonly identity: string;
  readonly key: Buffer;
}

/** Thrown when the server knows no key for the client's identity. Nothing authenticates this answer. */
export class UnknownIdentityError extends Error {
  override readonly name = "UnknownIdentityError";
}

/**
 * Connects to an NBD server, starts TLS, and returns what `open` makes of the socket on which options follow. Throws
 * UnknownIdentityError when the server has no key for the identity. Ends the connection when the signal aborts before that,
 * when the server is silent for `silenceTimeoutMs` before TLS, and when `open` throws.
 */
export async function connectOverTls<Opened>(
  target: TlsTarget,
  { signal, silenceTimeoutMs }: { readonly signal: AbortSignal; readonly silenceTimeoutMs: number },
  open: (socket: TLSSocket) => Promise<Opened>,
): Promise<Opened> {
  const { host, port } = target;
  const raw = createConnection({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS });
  raw.on("error", () => undefined);
  raw.setTimeout(silenceTimeoutMs, () => raw.destroy(new Error(`no answer within ${silenceTimeoutMs} ms`)));
  let current: Socket = raw;
  const abort = (): void => {
    current.destroy(new Error(`the connection was given up: ${messageOf(signal.reason)}`));
  };
  signal.addEventListener("abort", abort);
  try {
    if (signal.aborted) abort();
    await opened(raw, "connect");
    const reader = new ByteReader(raw);
    await greetServer(reader, raw);
    raw.write(encodeOption(OPTION.STARTTLS, Buffer.alloc(0)));
    const { reply, lengthBytes } = decodeOptionReplyHeader(await reader.read(OPTION_REPLY_HEADER_BYTES));
    const text = await reader.read(lengthBytes);
    if (reply !== REPLY.ACK) throw new Error(`the server does not start TLS: ${text.toString() || reply}`);
    reader.release();
    const socket = connect({
      ...TLS,
      socket: raw,
      // Trusts no authority: the key alone proves the server. TLS 1.3 lets a server ignore the key and show a
      // certificate.
      ca: [],
      checkServerIdentity: refuseCertificate,
      pskCallback: () => ({ psk: target.key, identity: target.identity }),
    });
    current = socket;
    socket.on("error", () => undefined);
    await opened(socket, "secureConnect");
    raw.setTimeout(0);
    return await open(socket);
  } catch (error) {
    raw.destroy();
    // Node's TLS servers answer an unknown identity with this alert, because they have no certificate to show instead.
    if (UNKNOWN_IDENTITY.test((error as NodeJS.ErrnoException).code ?? ""))
      throw new UnknownIdentityError(`the server knows no key of ${target.identity}`, { cause: error });
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Idle time in ms before the kernel probes the peer; ten unanswered probes, one each second, end the connection. */
export const KEEPALIVE_MS = 10_000;

function refuseCertificate(_host: string, certificate: PeerCertificate): Error | undefined {
  return Object.keys(certificate).length === 0 ? undefined : new Error("the server showed a certificate, not the key");
}

function opened(socket: Socket, event: "connect" | "secureConnect"): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once(event, resolve);
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("the connection ended")));
  });
}

/** A TLS connection whose client has proved that it has the key of its identity. */
interface SecuredClient {
  readonly socket: TLSSocket;
  readonly identity: string;
}

/**
 * Takes a client's connection over to TLS after STARTTLS. `keyOf` returns the key of an identity; undefined for an
 * unknown one. Throws when the handshake fails.
 */
export function secureServerSide(
  raw: Socket,
  keyOf: (identity: string) => Buffer | undefined,
  handshakeTimeoutMs: number,
): Promise<SecuredClient> {
  let proved: string | undefined;
  // One server for each connection, so that no session ticket of another connection can replace the key.
  const server = createServer({
    ...TLS,
    handshakeTimeout: handshakeTimeoutMs,
    pskCallback: (_socket, identity) => {
      proved = identity;
      return keyOf(identity) ?? null;
    },
  });
  return new Promise((resolve, reject) => {
    server.once("secureConnection", (socket) => {
      if (proved === undefined) reject(new Error("the client has not proved that it has a key"));
      else resolve({ socket, identity: proved });
    });
    server.once("tlsClientError", reject);
    raw.once("close", () => reject(new Error("the connection ended in the TLS handshake")));
    server.emit("connection", raw);
  });
}
