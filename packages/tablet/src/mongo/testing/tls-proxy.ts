import { connect, type Socket } from "node:net";
import { createServer, type Server, type TLSSocket } from "node:tls";
import type { KeyPair } from "@diskmesh/pki";

export interface TlsProxyOptions {
  /** Of a server without TLS. */
  readonly targetUrl: string;
  /** What it shows. */
  readonly pair: KeyPair;
  /** Whose certificates it lets in. */
  readonly authorities: readonly KeyPair[];
}

/** Stands before a MongoDB-compatible server and lets in whoever has a client certificate that it does not refuse. */
export class TlsProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #target: URL;
  readonly #refused = new Set<string>();
  readonly #open = new Map<TLSSocket, string>();
  readonly #held: Socket[] = [];
  #heldText: string | undefined;

  private constructor({ targetUrl, pair, authorities }: TlsProxyOptions) {
    this.#target = new URL(targetUrl);
    this.#server = createServer({ ...contextOf(pair, authorities), requestCert: true, rejectUnauthorized: true });
    this.#server.on("secureConnection", (socket) => this.#serve(socket));
  }

  static async start(options: TlsProxyOptions): Promise<TlsProxy> {
    const proxy = new TlsProxy(options);
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  /** From now on it shows that, and lets in whom those have signed. */
  become(pair: KeyPair, authorities: readonly KeyPair[]): void {
    this.#server.setSecureContext(contextOf(pair, authorities));
  }

  /** Connections that stand with the certificate of that serial number. */
  connectionsWith(serialNumber: string): number {
    return [...this.#open.values()].filter((one) => one === serialNumber).length;
  }

  refuse(serialNumber: string): void {
    this.#refused.add(serialNumber);
    for (const [socket, one] of this.#open) if (one === serialNumber) socket.destroy();
  }

  /** What is answered on a connection that has asked something with that text waits, until the function that is returned is called. */
  holdAnswersTo(text: string): () => void {
    this.#heldText = text;
    return () => {
      this.#heldText = undefined;
      for (const target of this.#held.splice(0)) target.resume();
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#open.keys()) socket.destroy();
    await closed;
  }

  #serve(socket: TLSSocket): void {
    const { serialNumber } = socket.getPeerCertificate();
    if (this.#refused.has(serialNumber)) {
      socket.destroy();
      return;
    }
    this.#open.set(socket, serialNumber);
    const target = connect(Number(this.#target.port), this.#target.hostname);
    socket.on("data", (chunk) => {
      if (this.#heldText === undefined || !chunk.includes(this.#heldText)) return;
      target.pause();
      this.#held.push(target);
    });
    joined(socket, target);
    joined(target, socket);
    socket.once("close", () => this.#open.delete(socket));
  }
}

function joined(from: Socket, to: Socket): void {
  from.pipe(to);
  from.on("error", () => {});
  from.once("close", () => to.destroy());
}

function contextOf({ certPem, keyPem }: KeyPair, authorities: readonly KeyPair[]) {
  return { cert: certPem, key: keyPem, ca: authorities.map((authority) => authority.certPem) };
}
