import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { type AgentConfigChange, startTestAgent, type TestAgent } from "./agent-process.js";
import { DONE } from "./agent-scene.js";
import { makeDeviceFile } from "./device-fixture.js";
import { AgentOrders, keyOf, TestRegistry } from "./test-registry.js";

/** Size of each device. */
export const SIZE_BYTES = 2 * 1024 * 1024;

/** Two agents with two devices each, and a registry that the tests control. All tests of a file share them. */
export class TwoAgents {
  certs!: TestCertificates;
  folder!: string;
  registry!: TestRegistry;
  one!: TestAgent;
  two!: TestAgent;
  ordersOne!: AgentOrders;
  ordersTwo!: AgentOrders;
  /** Last session that was opened. */
  session = 0;

  private constructor(
    readonly config: AgentConfigChange,
    private readonly devicePath: (deviceId: string) => string | undefined,
  ) {}

  /**
   * Must be called within a `describe`. `config` has parts of both agents' configs. A device whose path `devicePath` does
   * not return gets a file of its own.
   */
  static forAllTests(
    config: AgentConfigChange = {},
    devicePath: (deviceId: string) => string | undefined = () => undefined,
  ): TwoAgents {
    const agents = new TwoAgents(config, devicePath);
    before(() => agents.#start());
    after(() => agents.#stop());
    return agents;
  }

  async #start(): Promise<void> {
    this.certs = await testCertificates({ hostIds: ["host-1", "host-2"] });
    // Contains spaces, and is longer than the maximum path of a Unix socket.
    this.folder = join(temporaryFolder(), "a folder with spaces ".repeat(6).trim());
    this.registry = new TestRegistry(this.certs.files("disk-registry"));
    await this.registry.start();
    this.one = await this.#startAgent("host-1");
    this.two = await this.#startAgent("host-2");
    this.ordersOne = await this.ordersOf(this.one);
    this.ordersTwo = await this.ordersOf(this.two);
  }

  async #stop(): Promise<void> {
    this.ordersOne?.client.close();
    this.ordersTwo?.client.close();
    await Promise.all([this.one?.process.kill(), this.two?.process.kill()]);
    await this.registry?.stop();
  }

  async #startAgent(hostId: string): Promise<TestAgent> {
    mkdirSync(join(this.folder, hostId), { recursive: true });
    const devices = ["a", "b"].map((name) => {
      const deviceId = `${hostId}-${name}`;
      const path = this.devicePath(deviceId) ?? makeDeviceFile(join(this.folder, hostId), name, SIZE_BYTES);
      return { deviceId, path, sizeBytes: SIZE_BYTES };
    });
    return startTestAgent({
      hostId,
      folder: join(this.folder, hostId),
      certs: this.certs,
      registryAddress: this.registry.address,
      devices,
      config: { ...this.config, tuning: { drainTimeoutMs: 300, ...this.config.tuning } },
    });
  }

  /**
   * Returns a sender of orders to the agent start that registered last, once there are more than `after` registrations.
   */
  async ordersOf(agent: TestAgent, after = 0): Promise<AgentOrders> {
    const { bootId } = await this.registry.registered(agent.hostId, after);
    return new AgentOrders(this.registry, agent.hostId, agent.address, this.certs.files("disk-registry"), bootId);
  }

  /** Device of an agent as a part of a disk. `access` is what another host needs to reach it. */
  extentOn(agent: TestAgent, name: string, access: { blockAddress?: string; sessionKey?: Buffer } = {}) {
    return { deviceId: `${agent.hostId}-${name}`, hostId: agent.hostId, sizeBytes: SIZE_BYTES, ...access };
  }

  /** Opens a new session on the devices of that name, of both agents or those of `on`, and serves them as one disk. */
  async publish(diskId: string, holder: TestAgent, name = "a", on = [this.one, this.two]) {
    this.session += 1;
    const number = this.session;
    const ordersTo = (agent: TestAgent) => (agent === this.one ? this.ordersOne : this.ordersTwo);
    const extents = [];
    for (const agent of on) {
      const deviceIds = [`${agent.hostId}-${name}`];
      const [outcome] = await ordersTo(agent).sessionOutcomes(deviceIds, number, diskId, holder.hostId);
      expect(outcome?.outcome).to.equal(DONE);
      const blockAddress = outcome?.blockAddress ?? "";
      extents.push(this.extentOn(agent, name, agent === holder ? {} : { blockAddress, sessionKey: keyOf(number) }));
    }
    const socketPath = await ordersTo(holder).export(diskId, number, extents);
    return { number, socketPath, extents };
  }
}
