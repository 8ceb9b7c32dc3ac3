import { fileURLToPath } from "node:url";
import { type Device, type Disk, DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { type Client, createClient, type ServiceDefinition } from "@diskmesh/rpc";
import { ensureTablet } from "@diskmesh/tablet/testing";
import {
  freePort,
  type ServiceProcess,
  spawnService,
  type TestCertificates,
  temporaryFolder,
  testCertificates,
} from "@diskmesh/testkit";
import type { RegistryLimits } from "../config/limits.js";
import { TestAgent } from "./test-agent.js";

export type RegistryClient = Client<typeof DiskRegistryServiceDefinition>;

const HOST_IDS = ["h1", "h2", "h3"] as const;

/** Parts of the configuration that replace the tests' defaults; `heartbeat` and `tuning` are merged. */
export type ConfigChange = { readonly [part: string]: unknown } & {
  readonly heartbeat?: object;
  readonly tuning?: Partial<RegistryLimits>;
};

/** A registry in its own process, with short timeouts, and agents in this process. */
export class TestRegistry {
  readonly #closers: (() => unknown)[] = [];

  private constructor(
    readonly process: ServiceProcess,
    readonly certificates: TestCertificates,
    readonly address: string,
    readonly config: object,
    readonly operator: RegistryClient,
  ) {}

  static async start(change: ConfigChange = {}, hostIds: readonly string[] = HOST_IDS): Promise<TestRegistry> {
    const certificates = await testCertificates({ hostIds });
    const port = await freePort();
    const folder = temporaryFolder();
    const address = `127.0.0.1:${port}`;
    const tablet = { storage: `${folder}/state` };
    await ensureTablet({ name: "registry", ...tablet, ...(change.tablet as object | undefined) });
    const config = {
      listen: { host: "127.0.0.1", port },
      tls: certificates.files("disk-registry"),
      tablet,
      ...change,
      tuning: {
        backoff: { minDelayMs: 20, maxDelayMs: 200 },
        erasePollIntervalMs: 20,
        // Longer than the delays of a busy machine, because a retry would be counted twice.
        agentTimeoutMs: 20_000,
        unexportTimeoutMs: 20_000,
        ...change.tuning,
      },
      // Agents of many tests send no heartbeats, and a busy machine delays heartbeats, so no host falls silent by
      // default.
      heartbeat: {
        intervalMs: 100,
        timeoutMs: 300_000,
        missedUntilSuspected: 3_000,
        probationMs: 0,
        ...change.heartbeat,
      },
    };
    const process = await spawnService({
      name: "disk-registry",
      mainFile: fileURLToPath(new URL("./tuned-main.js", import.meta.url)),
      config,
      folder,
      health: { address, tls: certificates.files("operator"), serverRole: "disk-registry" },
    });
    const operator = clientOf(DiskRegistryServiceDefinition, certificates, address, "operator");
    return new TestRegistry(process, certificates, address, config, operator);
  }

  client(name: string): RegistryClient {
    return this.#closing(clientOf(DiskRegistryServiceDefinition, this.certificates, this.address, name));
  }

  /** Returns the operator's client of another service of the registry, or one for larger messages. */
  operatorOf<Definition extends ServiceDefinition>(
    definition: Definition,
    options: { readonly maxMessageBytes?: number } = {},
  ): Client<Definition> {
    return this.#closing(clientOf(definition, this.certificates, this.address, "operator", options));
  }

  #closing<Opened extends { close(): void }>(client: Opened): Opened {
    this.#closers.push(() => client.close());
    return client;
  }

  /** Returns a started agent that has not registered yet. */
  async agent(hostId: string, deviceIds: readonly string[], az = "z1"): Promise<TestAgent> {
    const tls = this.certificates.files(`disk-agent-${hostId}`);
    const agent = new TestAgent({ hostId, tls, registryAddress: this.address, deviceIds, az });
    await agent.start();
    this.#closers.push(() => agent.stop());
    return agent;
  }

  async device(deviceId: string): Promise<Device> {
    const { device } = await this.operator.getDevice({ deviceId });
    if (device === undefined) throw new Error("the answer has no device");
    return device;
  }

  async disk(diskId: string): Promise<Disk> {
    const { disk } = await this.operator.getDisk({ diskId });
    if (disk === undefined) throw new Error("the answer has no disk");
    return disk;
  }

  /** Purges everything, so that the next test can use the same process. */
  async reset(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
    const { operator } = this;
    // Hosts are purged first, because the fence of a disk does not wait for a purged device.
    for (const { hostId } of (await operator.listHosts({})).hosts) {
      await operator.purgeHost({ hostId, force: true });
    }
    for (const { diskId } of (await operator.listDisks({ showDeleted: true })).disks) {
      await operator.undeleteDisk({ diskId });
      await operator.unpublishDisk({ diskId });
      await operator.deleteDisk({ diskId, skipGrace: true });
    }
  }

  async stop(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
    this.operator.close();
    await this.process.kill();
  }
}

function clientOf<Definition extends ServiceDefinition>(
  definition: Definition,
  certificates: TestCertificates,
  address: string,
  name: string,
  options: { readonly maxMessageBytes?: number } = {},
): Client<Definition> {
  return createClient(definition, {
    address,
    tls: certificates.files(name),
    serverRole: "disk-registry",
    defaultDeadlineMs: 60_000,
    ...options,
  });
}
