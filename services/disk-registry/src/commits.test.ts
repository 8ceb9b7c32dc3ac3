import { DiskRegistryServiceService } from "@diskmesh/api/registry";
import { createClient, DEFAULT_RPC_SERVER_LIMITS, RpcServer } from "@diskmesh/rpc";
import { createLogger, systemClock } from "@diskmesh/service";
import { type Change, Tablet, type TabletStorage } from "@diskmesh/tablet";
import { eventually, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { AgentClients, grpcAgents } from "./agent-clients.js";
import { configSchema } from "./config.js";
import { DeviceChanges } from "./device-changes.js";
import { DiskChanges } from "./disk-changes.js";
import { Liveness } from "./liveness.js";
import { schema } from "./model/schema.js";
import { addServices } from "./services.js";
import { TestAgent } from "./testing/test-agent.js";
import { Turns } from "./turns.js";
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

/** The most that one host may have. */
const DEVICES = 4_096;

describe("commits", function () {
  this.timeout(60_000);

  it("AddHost of as many devices as a host may have -> one order, and at most one commit for the action and one for all outcomes", async () => {
    const certificates = await testCertificates({ hostIds: ["h1"] });
    const tls = certificates.files("disk-registry");
    const config = configSchema.parse({ listen: { host: "127.0.0.1", port: 0 }, tls, tablet: { storage: "unused" } });
    const storage = new CountingStorage();
    await using tablet = await Tablet.open({ name: "registry", schema, storage, address: "here" });
    const agents = new AgentClients(grpcAgents({ tls, defaultDeadlineMs: 5_000 }), () => tablet.checkMayAct());
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
    const diskChanges = new DiskChanges(tablet, systemClock);
    const deviceChanges = new DeviceChanges(tablet, 1_000);
    const context = {
      ...work,
      workers,
      diskChanges,
      deviceChanges,
      watchers: { count: 0 },
      registrationTurns: new Turns(8, setImmediate),
    };
    const server = new RpcServer({ tls, limits: DEFAULT_RPC_SERVER_LIMITS });
    addServices(server, () => context);
    const registryAddress = `127.0.0.1:${await server.listen({ host: "127.0.0.1", port: 0 })}`;
    const deviceIds = Array.from({ length: DEVICES }, (_, i) => `d${i}`);
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
      await eventually(async () => expect(await attached()).to.equal(DEVICES), { timeoutMs: 15_000 });
      expect(agent.received.map((order) => order.deviceIds.length)).to.deep.equal([DEVICES]);
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
