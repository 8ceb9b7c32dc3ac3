import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from "node:tls";
import { formatIdentity, type Identity, InvalidStateError, messageOf, transportMessage } from "@diskmesh/domain";
import { type CurrentTls, identityOfAlternativeNames } from "@diskmesh/tls";
import type { RpcServerLimits } from "../call/limits.js";
import { type Caller, identify } from "../call/peer-identity.js";
import { type ConnectionLimits, ConnectionQuota } from "./connection-quota.js";

export interface ListenAddress {
  readonly host: string;
  /** Port to bind; 0 lets the system choose. */
  readonly port: number;
}

/** Log record of a connection that was closed before it could make a call. */
export interface RefusedConnection {
  readonly remoteAddress: string;
  readonly reason: string;
  /** Identity in the certificate, even if an unknown authority signed it; absent without a certificate or identity. */
  readonly claimed?: Identity;
  /**
   * Set when the TLS handshake failed or the certificate was refused. A misconfigured client retries endlessly, so the
   * log omits repetitions.
   */
  readonly isHandshake?: true;
}

export interface SecureListenerOptions {
  /** TLS files of the server, read anew at each handshake. */
  readonly tls: CurrentTls;
  readonly limits: ConnectionLimits & Pick<RpcServerLimits, "handshakeTimeoutMs">;
  /** Takes over a connection whose peer was identified. */
  readonly onConnection: (socket: TLSSocket) => void;
  readonly onRefused: (refused: RefusedConnection) => void;
  /** Returns the reason when no connection may be accepted now, e.g. a shortage of descriptors. */
  readonly shortage: () => string | undefined;
}

/** An accepted connection until its handshake has ended. */
interface Handshake {
  readonly address: string;
  readonly endpoints: string;
  /** Value of `#sweeps` when the handshake began. */
  readonly sweep: number;
}

const SWEEP_INTERVAL_MS = 500;
/**
 * Age, in sweeps (`#sweeps`), from which a handshake may be closed to begin a waiting one. A handshake between
 * cooperating peers takes milliseconds.
 */
const MIN_HANGING_SWEEPS = 10;
/** Maximum number of handshakes closed per sweep for waiting ones, because all may be genuine and merely slow. */
const MAX_CLOSED_PER_SWEEP = 50;

/**
 * Accepts TLS connections, and passes on only those with a certificate of our authority that names an identity. HTTP/2
 * code is thus not exposed to unidentified peers. Handshakes beyond the limit are queued, round robin by address: when
 * thousands connect at once, the handshakes that have begun end quickly instead of all timing out.
 */
export class SecureListener {
  readonly #acceptor: Server;
  readonly #tls: TlsServer;
  readonly #quota: ConnectionQuota;
  /** Waiting sockets by address; the next address is first. */
  readonly #waiting = new Map<string, Set<Socket>>();
  /** Handshakes under way, oldest first. */
  readonly #handshakes = new Map<Socket, Handshake>();
  /**
   * Sockets in the handshake by their endpoints. A peer can reuse its endpoint before the close of its earlier
   * connection is reported; the entry is then the newer socket.
   */
  readonly #byEndpoints = new Map<string, Socket>();
  readonly #admitted = new Map<TLSSocket, Caller>();
  /**
   * Number of sweeps so far. Timeouts count sweeps instead of milliseconds, so that stalls of the event loop do not
   * count.
   */
  #sweeps = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: SecureListenerOptions) {
    const { ca, cert, key } = options.tls.material;
    this.#quota = new ConnectionQuota(options.limits);
    // `rejectUnauthorized` is false, because `#admit` refuses certificates of other authorities and logs their names.
    const asked = { requestCert: true, rejectUnauthorized: false, ALPNProtocols: ["h2"] };
    this.#tls = createTlsServer({ ca, cert, key, ...asked });
    this.#tls.on("secureConnection", (socket) => this.#admit(socket));
    this.#tls.on("tlsClientError", (error, socket) => this.#handshakeFailed(error, socket));
    options.tls.onChange(() => this.#reloadTls());
    // Waiting connections are paused; their data stays in the kernel.
    this.#acceptor = createServer({ pauseOnConnect: true }, (socket) => this.#accept(socket));
  }

  /** Starts to accept connections, and returns the port. */
  async listen(address: ListenAddress): Promise<number> {
    const { host, port } = address;
    await new Promise<void>((resolve, reject) => {
      this.#acceptor.once("error", (error) => reject(cannotListen(host, port, error)));
      this.#acceptor.listen({ host, port }, resolve);
    });
    // A failed accept, e.g. for lack of kernel memory, must not end the process.
    this.#acceptor.on("error", (error) => this.options.onRefused({ remoteAddress: "", reason: messageOf(error) }));
    return (this.#acceptor.address() as AddressInfo).port;
  }

  /** Stops accepting, and closes connections in the handshake. Admitted connections stay. */
  close(): void {
    this.#acceptor.close();
    clearInterval(this.#timer);
    for (const sockets of this.#waiting.values()) for (const socket of sockets) socket.destroy();
    for (const socket of this.#handshakes.keys()) socket.destroy();
  }

  #accept(socket: Socket): void {
    const address = socket.remoteAddress;
    if (address === undefined) {
      // The peer is already gone.
      socket.destroy();
      return;
    }
    const shortage = this.options.shortage();
    const limit = shortage === undefined ? this.#quota.enter(address) : undefined;
    const why = shortage ?? (limit && `rpc.${limit}`);
    if (why !== undefined) {
      this.#refuse(socket, address, why);
      return;
    }
    socket.once("close", () => {
      this.#leaveLine(address, socket);
      this.#quota.leave(address);
      this.#handshakeEnded(socket);
    });
    if (this.#waiting.has(address) || this.#quota.handshakeLimit(address) !== undefined) {
      const line = this.#waiting.get(address) ?? new Set();
      this.#waiting.set(address, line.add(socket));
    } else this.#begin(address, socket);
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_INTERVAL_MS).unref();
  }

  #begin(address: string, socket: Socket): void {
    const endpoints = endpointsOf(socket);
    this.#quota.handshakeBegins(address);
    this.#handshakes.set(socket, { address, endpoints, sweep: this.#sweeps });
    this.#byEndpoints.set(endpoints, socket);
    this.#tls.emit("connection", socket);
  }

  #leaveLine(address: string, socket: Socket): void {
    const line = this.#waiting.get(address);
    if (line?.delete(socket) && line.size === 0) this.#waiting.delete(address);
  }

  #beginWaiting(): void {
    for (const [address, line] of this.#waiting) {
      const limit = this.#quota.handshakeLimit(address);
      if (limit === "maxHandshakes") return;
      const [socket] = line;
      if (limit !== undefined || socket === undefined) continue;
      // Reinserting the address moves it to the end of the queue.
      this.#waiting.delete(address);
      line.delete(socket);
      if (line.size > 0) this.#waiting.set(address, line);
      this.#begin(address, socket);
    }
  }

  /** Closes one hanging handshake for each waiting connection, up to MAX_CLOSED_PER_SWEEP. */
  #cutForWaiting(): void {
    const inLine = [...this.#waiting.values()].reduce((sum, line) => sum + line.size, 0);
    let waiting = Math.min(MAX_CLOSED_PER_SWEEP, inLine);
    for (const [socket, { address, sweep }] of this.#handshakes) {
      if (waiting === 0 || this.#sweeps - sweep < MIN_HANGING_SWEEPS) return;
      const limit = this.#quota.handshakeLimit(address);
      if (limit === undefined || (limit === "maxHandshakesPerAddress" && !this.#waiting.has(address))) continue;
      waiting -= 1;
      this.#refuse(socket, address, `rpc.${limit}`);
    }
  }

  #refuse(socket: Socket, remoteAddress: string, reason: string): void {
    this.options.onRefused({ remoteAddress, reason });
    socket.destroy();
  }

  /** Applies changed TLS files to later handshakes. Open connections stay unless their peer is revoked. */
  #reloadTls(): void {
    const { ca, cert, key } = this.options.tls.material;
    this.#tls.setSecureContext({ ca, cert, key });
    for (const [socket, caller] of this.#admitted) this.#refuseRevoked(socket, caller);
  }

  #admit(socket: TLSSocket): void {
    const accepted = this.#byEndpoints.get(endpointsOf(socket));
    if (accepted) this.#handshakeEnded(accepted);
    // Ignores the error, because it closes the connection anyway. Before HTTP/2 takes over there is no other listener,
    // and an "error" event without a listener ends the process.
    socket.on("error", () => {});
    if (!socket.authorized) {
      this.#refuseCertificate(socket);
      return;
    }
    const caller = identify(socket);
    if (caller === undefined) {
      const reason = "the client certificate names no identity: it needs one URI:spiffe://diskmesh/<role>";
      this.#refuse(socket, socket.remoteAddress ?? "", reason);
    } else if (!this.#refuseRevoked(socket, caller)) {
      this.#admitted.set(socket, caller);
      socket.once("close", () => this.#admitted.delete(socket));
      this.options.onConnection(socket);
    }
  }

  #refuseRevoked(socket: TLSSocket, { identity, name, serialNumber }: Caller): boolean {
    if (!this.options.tls.isRevoked(serialNumber)) return false;
    const reason = `the certificate of ${name} with the serial number ${serialNumber} is revoked`;
    const remoteAddress = socket.remoteAddress ?? "";
    this.options.onRefused({ remoteAddress, reason, claimed: identity, isHandshake: true });
    socket.destroy();
    return true;
  }

  #handshakeFailed(error: NodeJS.ErrnoException, socket: TLSSocket): void {
    // Other errors are not logged: either this code closed the connection and logged that, or the client disconnected.
    if (!error.code?.startsWith("ERR_SSL_")) return;
    const reason = `the handshake failed: ${transportMessage(messageOf(error))}`;
    this.options.onRefused({ remoteAddress: socket.remoteAddress ?? "", reason, isHandshake: true });
  }

  #refuseCertificate(socket: TLSSocket): void {
    const claimed = identityOfAlternativeNames(socket.getPeerX509Certificate()?.subjectAltName);
    const who = claimed ? formatIdentity(claimed) : "";
    const why = transportMessage(String(socket.authorizationError));
    const reason = `the certificate${who && ` of ${who}`} is refused: ${why}`;
    const remoteAddress = socket.remoteAddress ?? "";
    this.options.onRefused({ remoteAddress, reason, ...(claimed && { claimed }), isHandshake: true });
    socket.destroy();
  }

  #handshakeEnded(socket: Socket): void {
    const handshake = this.#handshakes.get(socket);
    if (!handshake) return;
    this.#handshakes.delete(socket);
    if (this.#byEndpoints.get(handshake.endpoints) === socket) this.#byEndpoints.delete(handshake.endpoints);
    this.#quota.handshakeEnded(handshake.address);
    if (this.#waiting.size > 0) this.#beginWaiting();
  }

  /** Closes handshakes that exceed the timeout, even when their peers send a byte from time to time. */
  #sweep(): void {
    this.#sweeps += 1;
    const allowed = Math.ceil(this.options.limits.handshakeTimeoutMs / SWEEP_INTERVAL_MS);
    for (const [socket, { address, sweep }] of this.#handshakes) {
      if (this.#sweeps - sweep <= allowed) break;
      this.#refuse(socket, address, "rpc.handshakeTimeoutMs");
    }
    this.#cutForWaiting();
    if (this.#handshakes.size > 0 || this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** Key that links a connection to the TLS socket around it; Node has no public link between them. */
function endpointsOf(socket: Socket): string {
  return `${socket.localAddress} ${socket.remoteAddress} ${socket.remotePort}`;
}

function cannotListen(host: string, port: number, error: NodeJS.ErrnoException): InvalidStateError {
  const address = `${host.includes(":") ? `[${host}]` : host}:${port}`;
  return new InvalidStateError(`cannot listen on ${address}: ${whyNot(error)}`, {
    about: { address },
    cause: error,
  });
}

function whyNot(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case "EADDRINUSE":
      return "the port is in use by another process; stop that process, or configure another address";
    case "EADDRNOTAVAIL":
      return "this machine does not have the address; configure an address of this machine";
    case "EACCES":
      return "this process may not use the port; configure a port above 1023, or give the process the right";
    default:
      return messageOf(error);
  }
}
