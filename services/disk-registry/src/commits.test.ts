import { DiskRegistryServiceDefinition } from "@diskmesh/api/registry";
import { createClient } from "@diskmesh/rpc";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { eraseSessionOf, type Runs } from "./model/store/runs.js";
import { CountingRegistry } from "./testing/counting-registry.js";
import { TestAgent } from "./testing/test-agent.js";

/** Maximum devices of one host. */
const DEVICES = 4_096;

describe("commits", () => {
  it("AddHost of the maximum devices takes one order, and at most one commit for the action and one for all outcomes", async () => {
    await using registry = await CountingRegistry.start(["h1"]);
    const { context, commits, certificates, address } = registry;
    const { tablet } = context;
    const deviceIds = Array.from({ length: DEVICES }, (_, i) => `d${i}`);
    const tls = certificates.files("disk-agent-h1");
    const agent = new TestAgent({ hostId: "h1", tls, registryAddress: address, deviceIds });
    await agent.start();
    const options = { address, serverRole: "disk-registry", defaultDeadlineMs: 60_000 } as const;
    const operator = createClient(DiskRegistryServiceDefinition, { ...options, tls: certificates.files("operator") });
    const noOrderWaits = () =>
      eventually(async () =>
        expect(await tablet.read((t) => t.devices.count("awaitingOrderByHost", "h1"))).to.equal(0),
      );
    let finishErasing = (): void => {};
    try {
      // Erases would add commits to those that the test counts.
      const erasing = new Promise<undefined>((resolve) => {
        finishErasing = () => resolve(undefined);
      });
      agent.beforeErase = () => erasing;
      await agent.register();
      await noOrderWaits();
      commits.length = 0;
      agent.received.length = 0;
      await operator.addHost({ hostId: "h1" });
      const attached = () =>
        tablet.read((t) => [...t.devices.entries()].filter((d) => d.attachState === "ATTACHED").length);
      await eventually(async () => expect(await attached()).to.equal(DEVICES));
      expect(agent.received.map((order) => order.deviceIds.length)).to.deep.equal([DEVICES]);
      const ofOrders = commits.filter((changes) =>
        changes.some(({ table, document }) => table === "devices" && eraseSessionOf(document as Runs) === 0),
      );
      expect(ofOrders.length).to.equal(2);

      const before = commits.length;
      for (let i = 0; i < 5; i++) await agent.heartbeat();
      await agent.register();
      await noOrderWaits();
      const later = commits.slice(before).filter((changes) => changes.some((change) => change.table === "hosts"));
      expect(later.length, "heartbeats and a registration with no news store nothing").to.equal(0);
    } finally {
      finishErasing();
      operator.close();
      await agent.stop();
    }
  });
});
