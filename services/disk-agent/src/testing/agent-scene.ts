import { join } from "node:path";
import { DiskAgentServiceDefinition, type ListDevicesResponse } from "@diskmesh/api/internal";
import { AbortedError } from "@diskmesh/domain";
import { type Client, createClient, waitForHealth } from "@diskmesh/rpc";
import { type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { type AgentConfigChange, startTestAgent, type TestAgent } from "./agent-process.js";
import { makeDeviceFile } from "./device-fixture.js";
import { countDescriptors } from "./file-holders.js";
import { AgentOrders, TestRegistry } from "./test-registry.js";

export const DEVICE_BYTES = 64 * 4096;

/** Outcomes of an order, as an agent reports them. */
export const DONE = "ORDER_OUTCOME_DONE";
export const ALREADY = "ORDER_OUTCOME_ALREADY";

/**
 * Creates for each test two device files, a registry that the test controls, and a function that starts the agent of
 * host-1.
 */
export class AgentScene {
  certs!: TestCertificates;
  registry!: TestRegistry;
  agent!: TestAgent;
  /** Folder of the agent's files and the devices' files. */
  folder!: string;
  #open: { close(): void }[] = [];

  /** Must be called within a `describe`. */
  static forEachTest(): AgentScene {
    const scene = new AgentScene();
    before(async () => {
      scene.certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
    });
    beforeEach(async () => {
      scene.folder = temporaryFolder();
      for (const name of ["a", "b"]) makeDeviceFile(scene.folder, name, DEVICE_BYTES);
      scene.registry = new TestRegistry(scene.certs.files("disk-registry"));
      await scene.registry.start();
    });
    afterEach(async () => {
      for (const client of scene.#open.splice(0)) client.close();
      await scene.agent?.process.kill();
      await scene.registry.stop();
    });
    return scene;
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  /** Config entries of `dev-a` and `dev-b`. */
  get devices(): readonly object[] {
    return ["a", "b"].map((name) => ({ deviceId: `dev-${name}`, path: this.path(name), sizeBytes: DEVICE_BYTES }));
  }

  async start(config: AgentConfigChange = {}, devices = this.devices): Promise<void> {
    const { folder, certs, registry } = this;
    const registryAddress = registry.address;
    this.agent = await startTestAgent({ hostId: "host-1", folder, certs, registryAddress, devices, config });
  }

  /**
   * Returns a sender of orders to the agent start that registered last, once there are more than `after` registrations.
   */
  async orders(after = 0): Promise<AgentOrders> {
    const { bootId } = await this.registry.registered("host-1", after);
    return this.ordersOf("disk-registry", bootId);
  }

  ordersOf(who: string, bootId: string): AgentOrders {
    const orders = new AgentOrders(this.registry, "host-1", this.agent.address, this.certs.files(who), bootId);
    this.#open.push(orders.client);
    return orders;
  }

  client(who = "operator"): Client<typeof DiskAgentServiceDefinition> {
    const client = createClient(DiskAgentServiceDefinition, {
      address: this.agent.address,
      tls: this.certs.files(who),
      serverRole: "disk-agent",
      defaultDeadlineMs: 60_000,
    });
    this.#open.push(client);
    return client;
  }

  async list(): Promise<ListDevicesResponse> {
    const client = this.client();
    try {
      return await client.listDevices({});
    } finally {
      client.close();
    }
  }

  /** Returns how many descriptors the agent has on that file. */
  held(name: string): number {
    return countDescriptors(this.agent.process.pid, this.path(name));
  }

  get bothHeld(): readonly number[] {
    return ["a", "b"].map((name) => this.held(name));
  }

  ready(timeoutMs: number): Promise<void> {
    const { address } = this.agent;
    const tls = this.certs.files("operator");
    return waitForHealth({ address, tls, serverRole: "disk-agent", serverName: "host-1", timeoutMs });
  }

  /** Makes the agent register again, through the answer to a heartbeat. */
  async registerAnew(): Promise<void> {
    const before = this.registry.registrations.length;
    this.registry.onHeartbeat = () => {
      this.registry.onHeartbeat = () => {};
      throw new AbortedError("register again");
    };
    await this.registry.registered("host-1", before);
  }

  /** Returns the lines of the agent's log that contain this text. */
  logged(text: string): readonly string[] {
    return this.agent.process.logs.split("\n").filter((line) => line.includes(text));
  }
}
