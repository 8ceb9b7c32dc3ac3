import { X509Certificate } from "node:crypto";
import { mkdtempSync, renameSync, writeFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { createServer, type Server, type TLSSocket } from "node:tls";
import { createAuthority, issueCertificate, type KeyPair } from "@diskmesh/pki";
import { temporaryFolder } from "@diskmesh/testkit";

/** A proxy in front of a MongoDB-compatible server that requires a client certificate of its authority. */
export class TlsProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #target: URL;
  readonly #open = new Map<TLSSocket, string>();
  readonly #folder = mkdtempSync(join(temporaryFolder(), "tls-"));
  /** Files for a client: the authority, and a certificate with its key. */
  readonly files = { ca: join(this.#folder, "ca.pem"), pair: join(this.#folder, "pair.pem") };

  private constructor(
    targetUrl: string,
    readonly authority: KeyPair,
    pair: KeyPair,
  ) {
    this.#target = new URL(targetUrl);
    const [cert, key, ca] = [pair.certPem, pair.keyPem, authority.certPem];
    this.#server = createServer({ cert, key, ca, requestCert: true, rejectUnauthorized: true });
    this.#server.on("secureConnection", (socket) => this.#serve(socket));
    this.put("ca", authority.certPem);
  }

  static async start(targetUrl: string): Promise<TlsProxy> {
    const authority = await createAuthority({ commonName: "database", validDays: 1 });
    const proxy = new TlsProxy(targetUrl, authority, await issue(authority, "server"));
    await new Promise<void>((resolve) => proxy.#server.listen(0, "127.0.0.1", resolve));
    await proxy.renew();
    return proxy;
  }

  /** URL without a database name. */
  get url(): string {
    const { port } = this.#server.address() as { port: number };
    const [ca, pair] = [encodeURIComponent(this.files.ca), encodeURIComponent(this.files.pair)];
    return `mongodb://127.0.0.1:${port}?directConnection=true&tls=true&tlsCAFile=${ca}&tlsCertificateKeyFile=${pair}`;
  }

  /** Replaces the client certificate; resolves with its serial number. */
  async renew(by = this.authority): Promise<string> {
    const { certPem, keyPem } = await issue(by, "client");
    this.put("pair", keyPem + certPem);
    return new X509Certificate(certPem).serialNumber;
  }

  put(file: "ca" | "pair", text: string): void {
    const path = this.files[file];
    writeFileSync(`${path}.next`, text);
    renameSync(`${path}.next`, path);
  }

  connectionsWith(serialNumber: string): number {
    return [...this.#open.values()].filter((each) => each === serialNumber).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const socket of this.#open.keys()) socket.destroy();
    await closed;
  }

  #serve(socket: TLSSocket): void {
    this.#open.set(socket, socket.getPeerCertificate().serialNumber);
    const target = connect(Number(this.#target.port), this.#target.hostname);
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

function issue(authority: KeyPair, usage: "server" | "client"): Promise<KeyPair> {
  return issueCertificate(authority, {
    identity: { role: "director", name: "" },
    commonName: usage,
    dnsNames: [],
    ipAddresses: ["127.0.0.1"],
    validDays: 1,
    usages: [usage],
  });
}
