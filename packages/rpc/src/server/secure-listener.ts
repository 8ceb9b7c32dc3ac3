import { type AddressInfo, createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket, type Server as TlsServer } from "node:tls";
import { formatIdentity, type Identity, InvalidStateError, messageOf, transportWords } from "@diskmesh/domain";
import { type CurrentTls, identityOfAlternativeNames } from "@diskmesh/tls";
import type { RpcServerLimits } from "../call/limits.js";
import { type Caller, identify } from "../call/peer-identity.js";
import { type ConnectionLimits, ConnectionRoom } from "./connection-room.js";

export interface ListenAddress {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
}

/** A connection that was cut before it could make a call, for the log. */
export interface RefusedConnection {
  readonly remoteAddress: string;
  readonly reason: string;
  /** Whom its certificate names, whoever made that; absent where there is none, or it names nobody. */
  readonly claimed?: Identity;
  /** Its TLS handshake failed: one that is wrongly set up tries again and again, and is told of once. */
  readonly isHandshake?: true;
}

export interface SecureListenerOptions {
  /** What it is known by and trusts, at each handshake anew. */
  readonly tls: CurrentTls;
  readonly limits: ConnectionLimits & Pick<RpcServerLimits, "handshakeTimeoutMs">;
  /** Takes over a connection whose peer has an identity of ours. */
  readonly onConnection: (socket: TLSSocket) => void;
  readonly onRefused: (refused: RefusedConnection) => void;
  /** Says why no connection may be taken now, if so. */
  readonly shortage: () => string | undefined;
}

/** A connection that was accepted, until its handshake has ended. */
interface Handshake {
  readonly address: string;
  readonly endpoints: string;
  /** How many looks there had been. */
  readonly look: number;
}

const LOOK_INTERVAL_MS = 500;
/** A handshake that took so long may be cut for one that waits: it takes milliseconds where both ends want it. */
const MIN_HANGING_LOOKS = 10;
/** Cut at one look for those that wait: both ends may want them all, and be busy with thousands. */
const MAX_CUT_PER_LOOK = 50;

/**
 * Accepts TLS connections and lets only those through whose certificate is of our authority and names an identity of
 * diskmesh: nobody else gets as far as HTTP/2, which is much more code. Handshakes beyond what may be under way wait in
 * line, by address in turns: when thousands connect at once, those begun are soon over, and none is begun in vain.
 */
export class SecureListener {
  readonly #acceptor: Server;
  readonly #tls: TlsServer;
  readonly #room: ConnectionRoom;
  /** By address; whose turn comes first is first. */
  readonly #waiting = new Map<string, Set<Socket>>();
  /** The oldest first. */
  readonly #handshakes = new Map<Socket, Handshake>();
  /** Of endpoints that were used again before the last connection's end was told, the later connection. */
  readonly #byEndpoints = new Map<string, Socket>();
  readonly #admitted = new Map<TLSSocket, Caller>();
  /** Time is counted in looks, which a process that is too busy to answer does not take. */
  #looks = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly options: SecureListenerOptions) {
    const { ca, cert, key } = options.tls.material;
    this.#room = new ConnectionRoom(options.limits);
    // Whose certificate is not of our authority is refused in `#admit`, where it can be told by its name.
    const asked = { requestCert: true, rejectUnauthorized: false, ALPNProtocols: ["h2"] };
    this.#tls = createTlsServer({ ca, cert, key, ...asked });
    this.#tls.on("secureConnection", (socket) => this.#admit(socket));
    this.#tls.on("tlsClientError", (error, socket) => this.#handshakeFailed(error, socket));
    options.tls.onChange(() => this.#takeUp());
    // What waits is not read: it stays with the system.
    this.#acceptor = createServer({ pauseOnConnect: true }, (socket) => this.#accept(socket));
  }

  /** Starts to accept connections, and returns the port. */
  async listen(address: ListenAddress): Promise<number> {
    const { host, port } = address;
    await new Promise<void>((resolve, reject) => {
      this.#acceptor.once("error", (error) => reject(cannotListen(host, port, error)));
      this.#acceptor.listen({ host, port }, resolve);
    });
    // A connection that cannot be accepted, e.g. for want of kernel memory, is no reason to end.
    this.#acceptor.on("error", (error) => this.options.onRefused({ remoteAddress: "", reason: messageOf(error) }));
    return (this.#acceptor.address() as AddressInfo).port;
  }

  /** Accepts no more connections and drops those whose handshake is under way. Those that were let through stay. */
  close(): void {
    this.#acceptor.close();
    clearInterval(this.#timer);
    for (const sockets of this.#waiting.values()) for (const socket of sockets) socket.destroy();
    for (const socket of this.#handshakes.keys()) socket.destroy();
  }

  #accept(socket: Socket): void {
    const address = socket.remoteAddress;
    if (address === undefined) {
      // Its peer is gone already.
      socket.destroy();
      return;
    }
    const shortage = this.options.shortage();
    const limit = shortage === undefined ? this.#room.enter(address) : undefined;
    const why = shortage ?? (limit && `rpc.${limit}`);
    if (why !== undefined) {
      this.#refuse(socket, address, why);
      return;
    }
    socket.once("close", () => {
      this.#leaveLine(address, socket);
      this.#room.leave(address);
      this.#handshakeEnded(socket);
    });
    if (this.#waiting.has(address) || this.#room.handshakeLimit(address) !== undefined) {
      const line = this.#waiting.get(address) ?? new Set();
      this.#waiting.set(address, line.add(socket));
    } else this.#begin(address, socket);
    this.#timer ??= setInterval(() => this.#look(), LOOK_INTERVAL_MS).unref();
  }

  #begin(address: string, socket: Socket): void {
    const endpoints = endpointsOf(socket);
    this.#room.handshakeBegins(address);
    this.#handshakes.set(socket, { address, endpoints, look: this.#looks });
    this.#byEndpoints.set(endpoints, socket);
    this.#tls.emit("connection", socket);
  }

  #leaveLine(address: string, socket: Socket): void {
    const line = this.#waiting.get(address);
    if (line?.delete(socket) && line.size === 0) this.#waiting.delete(address);
  }

  /** Begins what waits and may. */
  #beginWaiting(): void {
    for (const [address, line] of this.#waiting) {
      const limit = this.#room.handshakeLimit(address);
      if (limit === "maxHandshakes") return;
      const [socket] = line;
      if (limit !== undefined || socket === undefined) continue;
      // To the end of the line of addresses.
      this.#waiting.delete(address);
      line.delete(socket);
      if (line.size > 0) this.#waiting.set(address, line);
      this.#begin(address, socket);
    }
  }

  /** Cuts handshakes that hang, as many as others wait for their places. */
  #cutForWaiting(): void {
    const inLine = [...this.#waiting.values()].reduce((sum, line) => sum + line.size, 0);
    let waiting = Math.min(MAX_CUT_PER_LOOK, inLine);
    for (const [socket, { address, look }] of this.#handshakes) {
      if (waiting === 0 || this.#looks - look < MIN_HANGING_LOOKS) return;
      const limit = this.#room.handshakeLimit(address);
      if (limit === undefined || (limit === "maxHandshakesPerAddress" && !this.#waiting.has(address))) continue;
      waiting -= 1;
      this.#refuse(socket, address, `rpc.${limit}`);
    }
  }

  #refuse(socket: Socket, remoteAddress: string, reason: string): void {
    this.options.onRefused({ remoteAddress, reason });
    socket.destroy();
  }

  /** From now on; connections that stand stay, but those of whom is revoked. */
  #takeUp(): void {
    const { ca, cert, key } = this.options.tls.material;
    this.#tls.setSecureContext({ ca, cert, key });
    for (const [socket, caller] of this.#admitted) this.#refuseRevoked(socket, caller);
  }

  #admit(socket: TLSSocket): void {
    const accepted = this.#byEndpoints.get(endpointsOf(socket));
    if (accepted) this.#handshakeEnded(accepted);
    // Errors of a connection end it; until HTTP/2 listens to it nobody else does.
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
    // Those that were cut here have been told of, and those that leave again are nobody's trouble.
    if (!error.code?.startsWith("ERR_SSL_")) return;
    const reason = `the handshake failed: ${transportWords(messageOf(error))}`;
    this.options.onRefused({ remoteAddress: socket.remoteAddress ?? "", reason, isHandshake: true });
  }

  #refuseCertificate(socket: TLSSocket): void {
    const claimed = identityOfAlternativeNames(socket.getPeerX509Certificate()?.subjectAltName);
    const who = claimed ? formatIdentity(claimed) : "";
    const why = transportWords(String(socket.authorizationError));
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
    this.#room.handshakeEnded(handshake.address);
    if (this.#waiting.size > 0) this.#beginWaiting();
  }

  /** Cuts handshakes that take too long, also of those who send a byte from time to time. */
  #look(): void {
    this.#looks += 1;
    const allowed = Math.ceil(this.options.limits.handshakeTimeoutMs / LOOK_INTERVAL_MS);
    for (const [socket, { address, look }] of this.#handshakes) {
      if (this.#looks - look <= allowed) break;
      this.#refuse(socket, address, "rpc.handshakeTimeoutMs");
    }
    this.#cutForWaiting();
    if (this.#handshakes.size > 0 || this.#waiting.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

/** What a connection and the TLS around it have in common: Node keeps no public link from one to the other. */
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
      return "the port is in use by another process; free it or configure another address";
    case "EADDRNOTAVAIL":
      return "this machine does not have the address; configure one that it has";
    case "EACCES":
      return "this process may not use the port; configure one above 1023, or give it the right";
    default:
      return messageOf(error);
  }
}
