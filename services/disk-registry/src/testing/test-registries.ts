import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import type { Role } from "@diskmesh/domain";
import { type Client, createClient } from "@diskmesh/rpc";
import { databaseUrl, ensureTablet, newTabletName, removeTablet } from "@diskmesh/tablet/testing";
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
type HostId = (typeof HOST_IDS)[number];

const DEVICE_SIZE_BYTES = 1024 * 1024;

/** Two registry processes on one tablet in a database; the first one leads. */
export class TestRegistries {
  readonly #closers: (() => unknown)[] = [];
  readonly #folder = temporaryFolder();
  readonly #url: string;
  readonly #tabletName = newTabletName();
  readonly addresses: string[] = [];
  readonly processes: ServiceProcess[] = [];

  private constructor(
    readonly certificates: TestCertificates,
    databaseServerUrl: string,
    private readonly leaseTimeMs: number,
    private readonly tuning: Partial<RegistryLimits>,
  ) {
    this.#url = databaseUrl(databaseServerUrl);
  }

  static async start(
    databaseServerUrl: string,
    leaseTimeMs: number,
    tuning: Partial<RegistryLimits> = {},
  ): Promise<TestRegistries> {
    const certificates = await testCertificates({ hostIds: HOST_IDS });
    const registries = new TestRegistries(certificates, databaseServerUrl, leaseTimeMs, tuning);
    await ensureTablet({ storage: registries.#url, name: registries.#tabletName });
    await registries.#startRegistry("serving");
    await registries.#startRegistry("listening");
    return registries;
  }

  get first(): ServiceProcess {
    return this.processes[0] as ServiceProcess;
  }

  get second(): ServiceProcess {
    return this.processes[1] as ServiceProcess;
  }

  async #startRegistry(waitFor: "serving" | "listening"): Promise<void> {
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const name = `disk-registry-${this.processes.length}`;
    this.processes.push(
      await this.#spawn("disk-registry", address, name, "disk-registry", waitFor, {
        listen: { host: "127.0.0.1", port },
        tls: this.certificates.files("disk-registry"),
        tablet: { storage: this.#url, name: this.#tabletName, leaseTimeMs: this.leaseTimeMs },
        heartbeat: { intervalMs: 200, timeoutMs: 20_000, missedUntilSuspected: 100 },
        tuning: {
          backoff: { minDelayMs: 20, maxDelayMs: 100 },
          agentTimeoutMs: 3_000,
          erasePollIntervalMs: 20,
          ...this.tuning,
        },
      }),
    );
    this.addresses.push(address);
  }

  async #spawn(
    service: Role,
    address: string,
    name: string,
    identity: string,
    waitFor: "serving" | "listening",
    config: object,
  ): Promise<ServiceProcess> {
    const process = await spawnService({
      name,
      mainFile: fileURLToPath(new URL(`../../../${service}/dist/testing/tuned-main.js`, import.meta.url)),
      config: { ...config, tls: this.certificates.files(identity) },
      folder: this.#folder,
      waitFor,
      health: { address, tls: this.certificates.files("operator"), serverRole: service },
    });
    this.#closers.push(() => process.kill());
    return process;
  }

  /** Returns a client of all registries, or of those at the given addresses. */
  operator(address: string | readonly string[] = this.addresses): RegistryClient {
    const client = createClient(DiskRegistryServiceDefinition, {
      address,
      tls: this.certificates.files("operator"),
      serverRole: "disk-registry",
      defaultDeadlineMs: 15_000,
    });
    this.#closers.push(() => client.close());
    return client;
  }

  /** Returns a registered agent in this process. */
  async agent(hostId: HostId, deviceIds: readonly string[]): Promise<TestAgent> {
    const tls = this.certificates.files(`disk-agent-${hostId}`);
    const agent = new TestAgent({ hostId, tls, registryAddress: this.addresses, deviceIds });
    await agent.start();
    this.#closers.push(() => agent.stop());
    await agent.register();
    agent.startHeartbeats(200);
    return agent;
  }

  /** Starts a real agent process with its own device files. Returns its address. */
  async agentProcess(hostId: HostId, deviceIds: readonly string[]): Promise<string> {
    const port = await freePort();
    const address = `127.0.0.1:${port}`;
    const baseFolder = join(this.#folder, hostId);
    mkdirSync(baseFolder);
    const devices = deviceIds.map((deviceId) => ({ deviceId, path: join(this.#folder, deviceId) }));
    for (const { path } of devices) writeFileSync(path, Buffer.alloc(DEVICE_SIZE_BYTES));
    const identity = `disk-agent-${hostId}`;
    await this.#spawn("disk-agent", address, hostId, identity, "serving", {
      listen: { host: "127.0.0.1", port },
      hostId,
      az: "z1",
      registry: { address: this.addresses },
      baseFolder,
      devices,
    });
    return address;
  }

  async stop(): Promise<void> {
    for (const close of this.#closers.splice(0).reverse()) await close();
    await removeTablet(this.#url, this.#tabletName);
  }
}
