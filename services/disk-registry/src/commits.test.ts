import { DiskRegistryServiceService } from "@diskmesh/api/registry";
import { createClient, DEFAULT_RPC_SERVER_LIMITS, RpcServer } from "@diskmesh/rpc";
import { createLogger, systemClock } from "@diskmesh/service";
import { type Change, Tablet, type TabletStorage } from "@diskmesh/tablet";
import { eventually, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentClients } from "./agent-clients.js";
import { configSchema } from "./config.js";
import { DiskChanges } from "./disk-changes.js";
import { Liveness } from "./liveness.js";
import { schema } from "./model/schema.js";
import { addServices } from "./services.js";
import { TestAgent } from "./testing/test-agent.js";
import { Workers } from "./workers/workers.js";

/** Keeps nothing and counts commits; each takes a while, so that what could share one does. */
class CountingStorage implements TabletStorage {
  readonly commits: (readonly Change[])[] = [];
  claim = async () => ({ tabletId: "tablet-1", generation: 1 });
  load = async () => {};
  renew = async () => {};
  close = async () => {};

  async commit(changes: readonly Change[]): Promise<void> {
    this.commits.push(changes);
    await systemClock.sleep(2);
  }
}

describe("commits", function () {
  this.timeout(20_000);

  it("AddHost of 256 devices -> one order, and at most one commit for the action and one for all outcomes", async () => {
    const certificates = await testCertificates({ hostIds: ["h1"] });
    const tls = certificates.files("disk-registry");
    const config = configSchema.parse({ listen: { host: "127.0.0.1", port: 0 }, tls, tablet: { storage: "unused" } });
    const storage = new CountingStorage();
    await using tablet = await Tablet.open({ name: "registry", schema, storage, address: "here" });
    const agents = new AgentClients({ tls, defaultDeadlineMs: 5_000, checkMayAct: () => tablet.checkMayAct() });
    const work = {
      config,
      log: createLogger({ service: "disk-registry", level: "silent" }),
      clock: systemClock,
      random: Math.random,
      tablet,
      leader: { tabletId: tablet.id, tabletGeneration: tablet.generation },
      agents,
      liveness: new Liveness(systemClock),
    };
    const workers = new Workers(work);
    const context = { ...work, workers, diskChanges: new DiskChanges(tablet, systemClock) };
    const server = new RpcServer({ tls, limits: DEFAULT_RPC_SERVER_LIMITS });
    addServices(server, () => context);
    const registryAddress = `127.0.0.1:${await server.listen({ host: "127.0.0.1", port: 0 })}`;
    const deviceIds = Array.from({ length: 256 }, (_, i) => `d${i}`);
    const agent = new TestAgent({ hostId: "h1", tls: certificates.files("disk-agent-h1"), registryAddress, deviceIds });
    await agent.start();
    const options = { address: registryAddress, serverRole: "disk-registry", defaultDeadlineMs: 5_000 } as const;
    const operator = createClient(DiskRegistryServiceService, { ...options, tls: certificates.files("operator") });
    let finishErasing = (): void => {};
    try {
      // Erases would add commits of their own while these are counted.
      const erasing = new Promise<undefined>((resolve) => {
        finishErasing = () => resolve(undefined);
      });
      agent.beforeErase = () => erasing;
      await agent.register();
      await eventually(async () =>
        expect(await tablet.read((t) => t.devices.count("awaitingOrderByHost", "h1"))).to.equal(0),
      );
      storage.commits.length = 0;
      agent.received.length = 0;
      await operator.addHost({ hostId: "h1", dryRun: false });
      const attached = () =>
        tablet.read((t) => [...t.devices.entries()].filter((d) => d.attachState === "ATTACHED").length);
      await eventually(async () => expect(await attached()).to.equal(256));
      expect(agent.received.map((order) => order.deviceIds.length)).to.deep.equal([256]);
      const ofOrders = storage.commits.filter((changes) =>
        changes.some(
          ({ table, document }) =>
            table === "devices" && (document as { eraseSessionNumber: number }).eraseSessionNumber === 0,
        ),
      );
      expect(ofOrders.length).to.equal(2);

      const before = storage.commits.length;
      for (let i = 0; i < 5; i++) await agent.heartbeat();
      await agent.register();
      await eventually(async () =>
        expect(await tablet.read((t) => t.devices.count("awaitingOrderByHost", "h1"))).to.equal(0),
      );
      const later = storage.commits
        .slice(before)
        .filter((changes) => changes.some((change) => change.table === "hosts"));
      expect(later.length, "heartbeats and a registration with no news store nothing").to.equal(0);
    } finally {
      finishErasing();
      operator.close();
      await agent.stop();
      await workers.close();
      agents.close();
      await server.drain();
    }
  });
});
