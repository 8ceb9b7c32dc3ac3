import { writeFileSync } from "node:fs";
import { createConnection } from "node:net";
import { join, relative } from "node:path";
import type { TestCertificates } from "./certificates.js";
import { Child, type Exit } from "./child-process.js";
import { eventually } from "./eventually.js";
import { freePort } from "./ports.js";

/** The permissions of one certificate. `user` is its identity URI, by which nats-server finds the user. */
interface NatsUser {
  readonly user: string;
  readonly publish: readonly string[];
  readonly subscribe: readonly string[];
  /** Lets it answer requests whose reply subject it may not publish to otherwise. */
  readonly allowResponses?: boolean;
}

export interface NatsOptions {
  /** Where the config and log files go. */
  readonly folder: string;
  readonly certs: TestCertificates;
  readonly users: readonly NatsUser[];
  /** Below `folder`: what its configuration includes in place of `users`. */
  readonly authFile?: string | undefined;
  /** The CA of the accepted client certificates; by default that of the server's certificate. */
  readonly caFile?: string | undefined;
  /** SHA-256 of the public keys that are let in, in hex; any that the authority signed by default. */
  readonly pinnedKeys?: readonly string[];
  /** A free port is chosen when it is left out; restarts keep it. */
  readonly port?: number;
  /** Where it listens; 127.0.0.1 when it is left out. */
  readonly host?: string | undefined;
  /** Another program than the one on PATH. */
  readonly command?: string;
  /** Runs it and becomes it, e.g. `nsenter` with its options. */
  readonly launcher?: readonly string[] | undefined;
}

/** Starts a real nats-server with TLS, which lets in only the certificates of the users given. */
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

  /** The address for a client's `servers`. */
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
      command: this.options.command ?? "nats-server",
      args: ["-c", configFile],
      launcher: this.options.launcher,
      logFile: join(this.options.folder, `nats-${this.port}.log`),
    });
    this.#child = child;
    await eventually(async () => {
      if (!child.exit) await connectTo(this.#host, this.port);
    });
    if (child.exit) throw new Error(`nats-server did not start:\n${child.output}`);
  }

  /** Sends a signal and does not wait, e.g. SIGSTOP and SIGCONT. */
  signal(signal: NodeJS.Signals): void {
    if (this.#child?.exit === undefined) this.#child?.signal(signal);
  }

  /** Ends it at once, as a crash would; clients see their connections break. */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  async stop(): Promise<void> {
    await this.#end("SIGTERM");
  }

  /** Kills it, if it still runs, and starts it again on the same port. */
  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** Kills it; for `await using`. */
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
    ...(options.pinnedKeys ? { pinned_certs: options.pinnedKeys } : {}),
  };
  if (options.authFile !== undefined) {
    // Paths of files to include are relative to the file that does.
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
  // nats-server reads JSON as its own format. Certificates are mapped to users by e-mail, DNS name, URI and at last the
  // subject, in this order; our DNS names and subjects are no users, so it is the URI that counts.
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
