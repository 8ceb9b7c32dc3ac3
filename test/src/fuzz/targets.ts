import { readFileSync } from "node:fs";
import { connect as connectTcp, type Socket } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import type { TlsFiles } from "@diskmesh/rpc";

/**
 * Source address of the fuzzer. Differs from 127.0.0.1, the address of the bystanders, so that the services' limits by
 * address count both separately.
 */
const FUZZ_ADDRESS = "127.0.0.2";
const CONNECT_TIMEOUT_MS = 5_000;

/** Services that speak gRPC. */
export const TARGETS = ["director", "cpi-dispatcher", "disk-registry", "disk-agent"] as const;
export type Target = (typeof TARGETS)[number];
export const CALLERS = ["operator", "director", "cpi-dispatcher", "disk-registry", "disk-agent", "nats"] as const;
export type Caller = (typeof CALLERS)[number] | "stranger";

/** Addresses of the fuzzed services, and certificates for connecting to them. */
export class Targets {
  readonly #material = new Map<string, ConnectionOptions>();

  constructor(
    private readonly addresses: Readonly<Record<Target, string>>,
    private readonly filesOf: (caller: Caller) => TlsFiles,
  ) {}

  port(target: Target): number {
    return Number(this.addresses[target].split(":")[1]);
  }

  /** Opens a TCP connection without TLS; ignores its errors. */
  tcp(port: number, localAddress = FUZZ_ADDRESS): Socket {
    return quiet(connectTcp({ port, host: "127.0.0.1", localAddress }));
  }

  /** Opens a TLS connection with a caller's certificate, or none. */
  tls(target: Target, caller: Caller | undefined, more: ConnectionOptions = {}): TLSSocket {
    const material = caller === undefined ? {} : this.#read(caller);
    return this.#tlsTo(this.port(target), { ...material, ALPNProtocols: ["h2"], ...more });
  }

  /** Opens a TLS connection without a certificate. */
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

/** TCP connection of each TLS connection, because only a TCP connection can be reset. */
const below = new WeakMap<Socket, Socket>();

/** Resets a connection, as the kernel does for a killed process. A Unix socket is closed instead. */
export function reset(socket: Socket): void {
  const tcp = below.get(socket) ?? socket;
  // Does not reset a connection whose end is already being sent: Node would fail to reset it and leave it open forever.
  const isEnding = [socket, tcp].some(({ writableEnded, readableEnded }) => writableEnded || readableEnded);
  if (tcp.remoteFamily !== undefined && !tcp.destroyed && !isEnding) tcp.resetAndDestroy();
  socket.destroy();
}

function quiet<S extends Socket>(socket: S): S {
  socket.on("error", () => {});
  socket.setTimeout(CONNECT_TIMEOUT_MS, () => socket.destroy());
  return socket;
}

/** Resolves when the socket has closed. Destroys it after `timeMs`. */
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

/** Returns whether the event came before the connection closed. */
export function came(socket: Socket, event: "connect" | "secureConnect"): Promise<boolean> {
  return new Promise((resolve) => {
    socket.once(event, () => resolve(true));
    socket.once("close", () => resolve(false));
  });
}
