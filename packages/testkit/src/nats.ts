import { writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join, relative } from "node:path";
import type { TestCertificates } from "./certificates.js";
import { Child, type Exit } from "./child-process.js";
import { eventually } from "./eventually.js";
import { freePort } from "./ports.js";

/** Permissions of one certificate. `user` is its identity URI, by which nats-server finds the user. */
interface NatsUser {
  readonly user: string;
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
  /** Permits replies to requests, also on subjects that the user may not publish to otherwise. */
  readonly allowResponses?: boolean;
}

export interface NatsOptions {
  /** Folder of the config and log files. */
  readonly folder: string;
  readonly certs: TestCertificates;
  readonly users: readonly NatsUser[];
  /** Path below `folder` of a file that the config includes instead of `users`. */
  readonly authFile?: string | undefined;
  /** CA of accepted client certificates; by default the CA of the server's certificate. */
  readonly caFile?: string | undefined;
  /** Port; by default a free one. Restarts keep it. */
  readonly port?: number;
  /** Address to listen on; 127.0.0.1 by default. */
  readonly host?: string | undefined;
}

/** Starts a real nats-server with TLS that accepts only certificates of the given users. */
export async function startNats(options: NatsOptions): Promise<NatsServer> {
  const server = new NatsServer(options, options.port ?? (await freePort()));
  await server.start();
  return server;
}

export class NatsServer {
  #child: Child | undefined;

  constructor(
    private readonly options: NatsOptions,
    readonly port: number,
  ) {}

  /** Address for a client's `servers` option. */
  get address(): string {
    return `${this.#host}:${this.port}`;
  }

  get #host(): string {
    return this.options.host ?? "127.0.0.1";
  }

  get pid(): number {
    if (!this.#child) throw new Error("nats-server was not started");
    return this.#child.pid;
  }

  get logs(): string {
    return this.#child?.output ?? "";
  }

  async start(): Promise<void> {
    const configFile = join(this.options.folder, `nats-${this.port}.conf`);
    writeFileSync(configFile, natsConfig(this.options, this.address));
    const child = new Child({
      name: "nats-server",
      command: "nats-server",
      args: ["-c", configFile],
      logFile: join(this.options.folder, `nats-${this.port}.log`),
    });
    this.#child = child;
    await eventually(async () => {
      if (!child.exit) await connectTo(this.#host, this.port);
    });
    if (child.exit) throw new Error(`nats-server did not start:\n${child.output}`);
  }

  /** Sends a signal, e.g. SIGSTOP or SIGCONT, without waiting for its effect. */
  signal(signal: NodeJS.Signals): void {
    if (this.#child?.exit === undefined) this.#child?.signal(signal);
  }

  /** Kills it with SIGKILL; clients see broken connections. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /** Kills it if it runs, and starts it again on the same port. */
  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.kill();
  }

  async #end(signal: NodeJS.Signals): Promise<Exit | undefined> {
    if (!this.#child || this.#child.exit) return this.#child?.exit;
    this.#child.signal(signal);
    return this.#child.exited;
  }
}

function natsConfig(options: NatsOptions, address: string): string {
  const { caFile, certFile, keyFile } = options.certs.files("nats");
  const tls = {
    ca_file: options.caFile ?? caFile,
    cert_file: certFile,
    key_file: keyFile,
    verify_and_map: true,
    timeout: 5,
  };
  if (options.authFile !== undefined) {
    // nats-server resolves include paths relative to the including file.
    const included = relative(options.folder, options.authFile);
    return `listen: "${address}"\ntls ${JSON.stringify(tls)}\ninclude "${included}"\n`;
  }
  const users = options.users.map((one) => ({
    user: one.user,
    permissions: {
      publish: { allow: one.publish },
      subscribe: { allow: one.subscribe },
      ...(one.allowResponses ? { allow_responses: true } : {}),
    },
  }));
  // nats-server reads JSON as its config format. It maps a certificate to a user by e-mail, DNS name, URI and subject,
  // in this order. The users listed here are identity URIs, so DNS names and subjects never match.
  return JSON.stringify({
    listen: address,
    tls,
    authorization: { users },
  });
}

function connectTo(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection(port, host, () => {
      socket.destroy();
      resolve();
    });
    socket.once("error", reject);
  });
}
