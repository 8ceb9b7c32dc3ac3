import type { AttachState, CreateDiskRequest, Device } from "@diskmesh/api/registry";
import { MIB_BYTES } from "@diskmesh/domain";
import type { PartialOf } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { TestAgent } from "./test-agent.js";
import { type ConfigChange, TestRegistry } from "./test-registry.js";

/** A registry that the tests of a file share, emptied after each test. Has shorthands for common calls. */
export class SharedRegistry {
  #shared: TestRegistry | undefined;
  #own: TestRegistry | undefined;

  /** Must be called within a `describe`. */
  static forAllTests(): SharedRegistry {
    const shared = new SharedRegistry();
    before(async () => {
      shared.#shared = await TestRegistry.start();
    });
    afterEach(async () => {
      if (shared.#own === undefined) await shared.#shared?.reset();
      else await shared.#own.stop();
      shared.#own = undefined;
    });
    after(async () => shared.#shared?.stop());
    return shared;
  }

  /** Returns the test's own registry if it started one; otherwise the shared one. */
  get registry(): TestRegistry {
    const registry = this.#own ?? this.#shared;
    if (registry === undefined) throw new Error("no registry was started");
    return registry;
  }

  /** Starts a registry that stops with the test. */
  async startOwn(config: ConfigChange = {}): Promise<void> {
    this.#own = await TestRegistry.start(config);
  }

  async add(hostId = "h1"): Promise<string | undefined> {
    return (await this.registry.operator.addHost({ hostId })).result?.code;
  }

  async remove(hostId = "h1") {
    return (await this.registry.operator.removeHost({ hostId })).result;
  }

  inState(deviceId: string, state: AttachState): Promise<Device> {
    return eventually(async () => {
      const device = await this.registry.device(deviceId);
      expect(device.attachState, device.lastError).to.equal(state);
      return device;
    });
  }

  async clean(...deviceIds: string[]): Promise<void> {
    await eventually(async () => {
      for (const deviceId of deviceIds) expect((await this.registry.device(deviceId)).dirty, deviceId).to.equal(false);
    });
  }

  /** Returns a registered agent that has sent a heartbeat, and whose devices are attached and erased. */
  async readyAgent(hostId: "h1" | "h2" | "h3", deviceIds: string[]): Promise<TestAgent> {
    const agent = await this.registry.agent(hostId, deviceIds);
    await agent.register();
    agent.startHeartbeats(50);
    await this.add(hostId);
    await this.clean(...deviceIds);
    return agent;
  }

  createDisk(diskId: string, change: PartialOf<typeof CreateDiskRequest> = {}) {
    return this.registry.operator.createDisk({ diskId, sizeBytes: MIB_BYTES, az: "z1", ...change });
  }
}
