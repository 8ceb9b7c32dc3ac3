import { readFileSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import type { TlsFiles } from "@diskmesh/rpc";

/**
 * Bystanders come from 127.0.0.1. Another address here keeps limits per address from separating the two by accident.
 */
const FUZZ_ADDRESS = "127.0.0.2";
const CONNECT_TIMEOUT_MS = 5_000;

/** Services that speak gRPC, and who may try. */
export const TARGETS = ["director", "cpi-dispatcher", "disk-registry", "disk-agent"] as const;
export type Target = (typeof TARGETS)[number];
export const CALLERS = ["operator", "director", "cpi-dispatcher", "disk-registry", "disk-agent", "nats"] as const;
export type Caller = (typeof CALLERS)[number] | "stranger";

/** Where the services under fuzz listen, and the certificates to come with. */
export class Targets {
  readonly #material = new Map<string, ConnectionOptions>();

  constructor(
    private readonly addresses: Readonly<Record<Target, string>>,
    private readonly filesOf: (caller: Caller) => TlsFiles,
  ) {}

  port(target: Target): number {
    return Number(this.addresses[target].split(":")[1]);
  }

  /** A connection without TLS, opened in its own time; its errors are nobody's. */
  tcp(port: number, localAddress = FUZZ_ADDRESS): Socket {
    return quiet(connectTcp({ port, host: "127.0.0.1", localAddress }));
  }

  /** A TLS connection with the certificate of a caller, or none. */
  tls(target: Target, caller: Caller | undefined, more: ConnectionOptions = {}): TLSSocket {
    const material = caller === undefined ? {} : this.#read(caller);
    return this.#tlsTo(this.port(target), { ...material, ALPNProtocols: ["h2"], ...more });
  }

  /** A TLS connection without a certificate. */
  https(port: number): TLSSocket {
    return this.#tlsTo(port, {});
  }

  #tlsTo(port: number, options: ConnectionOptions): TLSSocket {
    const tcp = this.tcp(port);
    const tls = connect({ socket: tcp, rejectUnauthorized: false, ...options });
    below.set(tls, tcp);
    return quiet(tls);
  }

  #read(caller: Caller): ConnectionOptions {
    let read = this.#material.get(caller);
    if (read === undefined) {
      const { certFile, keyFile } = this.filesOf(caller);
      read = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
      this.#material.set(caller, read);
    }
    return read;
  }
}

/** The TCP connection below a TLS one, which alone can be reset. */
const below = new WeakMap<Socket, Socket>();

/** Ends a connection without a word, as the kernel of a killed process does. A Unix socket is just closed. */
export function reset(socket: Socket): void {
  const tcp = below.get(socket) ?? socket;
  // Node leaves the connection open, for good, when a reset fails since the end of what is written is on its way.
  const isEnding = [socket, tcp].some(({ writableEnded, readableEnded }) => writableEnded || readableEnded);
  if (tcp.remoteFamily !== undefined && !tcp.destroyed && !isEnding) tcp.resetAndDestroy();
  socket.destroy();
}

function quiet<S extends Socket>(socket: S): S {
  socket.on("error", () => {});
  socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy());
  return socket;
}

/** Resolves when the socket has closed, or after that time, when it is destroyed. */
export function closedWithin(socket: Socket, timeMs: number): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed) return resolve();
    const timer = setTimeout(() => socket.destroy(), timeMs);
    socket.once("close", () => {
      clearTimeout(timer);
      resolve();
    });
    socket.resume();
  });
}

/** Resolves to whether an event came before the connection closed. */
export function came(socket: Socket, event: "connect" | "secureConnect"): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once(event, () => resolve(true));
    socket.once("close", () => resolve(false));
  });
}
