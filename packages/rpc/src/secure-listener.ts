import type { AddressInfo, Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { identify } from "./peer-identity.js";
import type { TlsMaterial } from "./tls.js";

export interface ListenAddress {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

/** A connection that was cut before it could make a call, for the log. */
export interface RefusedConnection {
  readonly remoteAddress: string;
  readonly reason: string;
}

export interface SecureListenerOptions {
  readonly tls: TlsMaterial;
  /** Takes over a connection whose peer has an identity of ours. */
  readonly onConnection: (socket: TLSSocket) => void;
  readonly onRefused: (refused: RefusedConnection) => void;
}

/**
 * Accepts TLS connections and lets only those through whose certificate is of our authority and names an identity of
 * diskmesh: nobody else gets as far as HTTP/2, which is much more code.
 */
export class SecureListener {
  readonly #server: Server;
  readonly #handshaking = new Map<string, Socket>();

  constructor(private readonly options: SecureListenerOptions) {
    const { ca, cert, key } = options.tls;
    this.#server = createServer({ ca, cert, key, requestCert: true, rejectUnauthorized: true, ALPNProtocols: ["h2"] });
    this.#server.on("connection", (socket: Socket) => this.#accept(socket));
    this.#server.on("secureConnection", (socket) => this.#admit(socket));
  }

  /** Starts to accept connections, and returns the port. */
  async listen(address: ListenAddress): Promise<number> {
    const { host, port } = address;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", (error) => reject(cannotListen(host, port, error)));
      this.#server.listen({ host, port }, resolve);
    });
    return (this.#server.address() as AddressInfo).port;
  }

  /** Accepts no more connections and drops those whose handshake is under way. Those that were let through stay. */
  close(): void {
    this.#server.close();
    for (const socket of this.#handshaking.values()) socket.destroy();
  }

  #accept(socket: Socket): void {
    const key = endpointsOf(socket);
    this.#handshaking.set(key, socket);
    socket.once("close", () => {
      if (this.#handshaking.get(key) === socket) this.#handshaking.delete(key);
    });
  }

  #admit(socket: TLSSocket): void {
    this.#handshaking.delete(endpointsOf(socket));
    // Errors of a connection end it; until HTTP/2 listens to it nobody else does.
    socket.on("error", () => {});
    if (identify(socket)) this.options.onConnection(socket);
    else {
      const reason = "the client certificate names no identity: it needs one URI:spiffe://diskmesh/<role>";
      this.options.onRefused({ remoteAddress: socket.remoteAddress ?? "", reason });
      socket.destroy();
    }
  }
}

/** What a connection and the TLS around it have in common: Node keeps no public link from one to the other. */
function endpointsOf(socket: Socket): string {
  return `${socket.localAddress} ${socket.remoteAddress} ${socket.remotePort}`;
}

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): InvalidStateError {
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const why = error.code === "EADDRINUSE" ? "the port is in use by another process" : messageOf(error);
  return new InvalidStateError(`cannot listen on ${address}: ${why}; free it or configure another address`, {
    about: { address },
    cause: error,
  });
}
