import { type Identity, identityUri } from "@diskmesh/domain";
import {
  type NatsServer,
  startNats,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import { connectNats, type NatsConnection } from "../connection.js";
import { mbusPermissions } from "../permissions.js";

/** A real nats-server with the permissions of a director and some agents, and connections to it, for tests. */
export class TestServer {
  readonly #connections: NatsConnection[] = [];

  private constructor(
    readonly nats: NatsServer,
    readonly certs: TestCertificates,
  ) {}

  /** Starts a server with the named certificate. */
  static async start(hostIds: readonly string[], certificate = "nats"): Promise<TestServer> {
    const certs = await testCertificates({ hostIds });
    const identities: Identity[] = [
      { role: "director", name: "" },
      ...hostIds.map((name) => ({ role: "disk-agent" as const, name })),
    ];
    const users = identities.map((identity) => ({ user: identityUri(identity), ...mbusPermissions(identity) }));
    const own = { folder: certs.folder, files: () => certs.files(certificate) };
    return new TestServer(await startNats({ folder: temporaryFolder(), certs: own, users }), certs);
  }

  /** Connects as the holder of the named certificate. The connection is closed with the server. */
  async connect(name: string): Promise<NatsConnection> {
    const connection = await connectNats({
      servers: [this.nats.address],
      tls: this.certs.files(name),
      name,
      reconnect: { minDelayMs: 20, maxDelayMs: 100 },
    });
    this.#connections.push(connection);
    return connection;
  }

  async stop(): Promise<void> {
    await Promise.all(this.#connections.map((connection) => connection.close()));
    await this.nats.kill();
  }
}
