import { randomBytes } from "node:crypto";
import { DiskAgentServiceDefinition, type ListDevicesResponse } from "@diskmesh/api/agent";
import { AbortedError, InvalidStateError, NotFoundError, OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { createClient } from "@diskmesh/rpc";
import { eventually, type TestCertificates, temporaryFolder, testCertificates } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "./nbd/client.js";
import { countDescriptors, startTestAgent, type TestAgent } from "./testing/agent-process.js";
import { makeDeviceFile } from "./testing/device-fixture.js";
import { AgentOrders, TestRegistry } from "./testing/test-registry.js";

const SIZE = 64 * 4096;
const DONE = "ORDER_OUTCOME_DONE";
const ALREADY = "ORDER_OUTCOME_ALREADY";
const PARENT = { tabletId: "tablet-1", incarnation: "parent", tabletGeneration: 5 };
const CHILD = { tabletId: "tablet-1", incarnation: "child", tabletGeneration: 9 };

describe("an agent between incarnations", () => {
  let certs: TestCertificates;
  let folder: string;
  let registry: TestRegistry;
  let agent: TestAgent;
  let a: string;
  let b: string;
  let open: { close(): void }[];

  before(async () => {
    certs = await testCertificates({ hostIds: ["host-1"] });
  });

  beforeEach(async () => {
    folder = temporaryFolder();
    a = makeDeviceFile(folder, "a", SIZE);
    b = makeDeviceFile(folder, "b", SIZE);
    open = [];
    registry = new TestRegistry(certs.files("disk-registry"));
    registry.become(PARENT);
    await registry.start();
  });

  afterEach(async () => {
    for (const client of open) client.close();
    await agent?.process.kill();
    await registry.stop();
  });

  const start = async (config = {}) => {
    const devices = [
      { deviceId: "dev-a", path: a, sizeBytes: SIZE },
      { deviceId: "dev-b", path: b, sizeBytes: SIZE },
    ];
    agent = await startTestAgent({
      hostId: "host-1",
      folder,
      certs,
      registryAddress: registry.address,
      devices,
      config,
    });
  };

  const orders = async (after = 0) => {
    const { bootId } = await registry.registered("host-1", after);
    const made = new AgentOrders(registry, "host-1", agent.address, certs.files("disk-registry"), bootId);
    open.push(made.client);
    return made;
  };

  const list = async (): Promise<ListDevicesResponse> => {
    const tls = certs.files("operator");
    const to = { address: agent.address, tls, serverRole: "disk-agent" as const, defaultDeadlineMs: 60_000 };
    const client = createClient(DiskAgentServiceDefinition, to);
    try {
      return await client.listDevices({});
    } finally {
      client.close();
    }
  };

  const held = (path: string) => countDescriptors(agent.process.pid, path);

  /** The agent is told to register, and obeys whoever answers then. */
  const changeOver = async (life: Parameters<TestRegistry["become"]>[0]) => {
    registry.become(life);
    registry.onHeartbeat = () => {
      throw new AbortedError("register anew");
    };
    await eventually(async () => expect(await list()).to.include({ incarnation: registry.incarnation }));
    registry.onHeartbeat = () => {};
  };

  const restored = { ...CHILD, predecessors: [{ tabletId: "tablet-1", incarnation: "parent" }] };

  it("that obeyed the child refuses the parent: orders, answers, answers of one that adopted it; also after kill -9", async () => {
    await start();
    expect(await (await orders()).attach("dev-a")).to.equal(ALREADY);
    registry.answer = (request) => registry.allow(request, ["dev-b"]);
    registry.become(restored);
    registry.onHeartbeat = () => {
      throw new AbortedError("register anew");
    };
    // The first that can be seen of the answer.
    await eventually(() => held(b) === 0, { everyMs: 1 });
    await agent.process.kill();
    registry.onHeartbeat = () => {};
    registry.answer = (request) => registry.allow(request);
    // Both are refused for good, whatever they say.
    for (const predecessors of [[], [{ tabletId: "tablet-1", incarnation: "child" }]]) {
      registry.become({ ...PARENT, tabletGeneration: 5_000, predecessors });
      const before = registry.registrations.length;
      const refusals = () => agent.process.logs.split("the registry was replaced").length;
      const refusalsBefore = refusals();
      await agent.process.start();
      const parent = await orders(before);
      await eventually(() => refusals() > refusalsBefore);
      const attach = registry.nextGeneration("dev-b") + 1_000;
      const refused = [parent.attach("dev-b", attach), parent.openSession(["dev-a"], 99, "disk-1", "host-1")];
      for (const error of await Promise.all(refused.map((call) => rejection(call, OutdatedError)))) {
        expect(error.about).to.deep.equal({ host_id: "host-1", tablet_id: "tablet-1", incarnation: "child" });
      }
      expect(await list()).to.include({ ...numbers(CHILD), highestDeviceGeneration: 2, highestSessionNumber: 0 });
      expect([held(a), held(b)]).to.deep.equal([1, 0]);
      await agent.process.kill();
    }
    registry.become(CHILD);
    // Above what it has given already.
    for (let given = 0; given < 10; given += 1) registry.nextGeneration("dev-a");
    const before = registry.registrations.length;
    await agent.process.start();
    const child = await orders(before);
    await eventually(() => expect(registry.heartbeats.at(-1)).to.include({ bootId: child.bootId }));
    expect(await child.attach("dev-b")).to.equal(ALREADY);
    expect(held(b)).to.equal(1);
  });

  const numbers = ({ tabletId, incarnation, tabletGeneration }: typeof PARENT) => ({
    tabletId,
    incarnation,
    highestTabletGeneration: tabletGeneration,
  });

  it("another incarnation that is no successor -> orders and answers are refused, and both say who leads", async () => {
    await start();
    const order = await orders();
    registry.become({ ...PARENT, incarnation: "copy", tabletGeneration: 70 });
    const error = await rejection(order.detach("dev-a"), InvalidStateError);
    expect(error.about).to.deep.equal({ host_id: "host-1", tablet_id: "tablet-1", incarnation: "parent" });
    registry.onHeartbeat = () => {
      throw new NotFoundError("no such host");
    };
    await eventually(() => expect(agent.process.logs).to.match(/copy.*AdoptFleet/));
    expect([held(a), held(b)]).to.deep.equal([1, 1]);
    expect(await list()).to.include(numbers(PARENT));
  });

  it("another tablet that adopts it -> devices stay open, exports serve on, low generations are obeyed", async () => {
    await start();
    const former = await orders();
    expect(await former.openSession(["dev-a"], 7, "disk-1", "host-1")).to.deep.equal([DONE]);
    const extent = { deviceId: "dev-a", hostId: "host-1", address: agent.address, sizeBytes: SIZE };
    const socketPath = await former.export("disk-1", 7, [extent]);
    expect(await former.detach("dev-b")).to.equal(DONE);
    const data = randomBytes(4096);
    const disk = await NbdClient.connect({ socketPath });
    await disk.write(0, data);
    registry.answer = (request) => ({ ...registry.allow(request), allowedDevices: [] });

    const lone = { tabletId: "tablet-2", incarnation: "lone", tabletGeneration: 1 };
    await changeOver({ ...lone, predecessors: [{ tabletId: "tablet-1", incarnation: "parent" }] });
    expect((await disk.read(0, 4096)).equals(data)).to.equal(true);
    await disk.write(4096, data);
    const listed = await list();
    expect(listed).to.include({ ...numbers(lone), highestDeviceGeneration: 0, highestSessionNumber: 7 });
    expect(listed.devices.map(({ attached, stamp }) => [attached, stamp])).to.deep.equal([
      [true, undefined],
      [false, undefined],
    ]);
    expect(
      (await rejection(former.client.detachDevices(ordered(former.bootId, { ...PARENT, deviceGeneration: 999 })))).name,
    ).to.equal("OutdatedError");

    await agent.process.kill();
    const before = registry.registrations.length;
    await agent.process.start();
    expect([held(a), held(b)]).to.deep.equal([1, 0]);
    const latter = await orders(before);
    const again = await NbdClient.connect({ socketPath });
    expect((await again.read(4096, 4096)).equals(data)).to.equal(true);
    await again.disconnect();
    await eventually(() => expect(registry.heartbeats.at(-1)).to.include({ bootId: latter.bootId }));
    expect(await latter.attach("dev-b", 1)).to.equal(DONE);
    expect(await latter.detach("dev-a", 2)).to.equal(DONE);
    expect([held(a), held(b)]).to.deep.equal([0, 1]);
    expect(await list()).to.include({ ...numbers(lone), highestDeviceGeneration: 2, highestSessionNumber: 7 });
  });

  const ordered = (bootId: string, stamp: typeof PARENT & { deviceGeneration: number }) => ({
    bootId,
    devices: [{ deviceId: "dev-a", stamp, expected: undefined }],
  });

  it("registrations, heartbeats and lists carry the highest numbers; devices their sessions, also ended ones", async () => {
    await start();
    const first = await registry.registered("host-1");
    const none = { tabletId: "", incarnation: "", highestTabletGeneration: 0 };
    expect(first).to.include({ ...none, highestDeviceGeneration: 0, highestSessionNumber: 0 });
    const order = await orders();
    registry.tabletGeneration = 6;
    expect(await order.attach("dev-a", 40)).to.equal(ALREADY);
    expect(await order.openSession(["dev-a"], 7, "disk-1", "host-1")).to.deep.equal([DONE]);
    const close = { stamp: registry.stamp(), sessionNumber: 7, deviceIds: ["dev-a"] };
    await order.client.closeSession({ bootId: order.bootId, ...close });
    const erase = { stamp: registry.stamp(), sessionNumber: 8, deviceId: "dev-b" };
    await order.client.eraseDevice({ bootId: order.bootId, ...erase });
    await order.unexport("disk-9", 9);

    const highest = {
      ...numbers({ ...PARENT, tabletGeneration: 6 }),
      highestDeviceGeneration: 40,
      highestSessionNumber: 9,
    };
    expect(await list()).to.include(highest);
    await eventually(() => expect(registry.heartbeats.at(-1)).to.include(highest));
    await agent.process.kill();
    await agent.process.start();
    const later = await registry.registered("host-1", 1);
    expect(later).to.include(highest);
    expect(later.devices.map(({ sessionNumber, sessionDiskId }) => [sessionNumber, sessionDiskId])).to.deep.equal([
      [7, "disk-1"],
      [8, ""],
    ]);
  });

  it("a session of the former incarnation that came while the successor's answer was on its way -> it registers again", async () => {
    await start();
    const former = await orders();
    let release = () => {};
    const hold = new Promise<void>((resolve) => {
      release = resolve;
    });
    let asked = 0;
    registry.answer = async (request) => {
      asked += 1;
      if (asked === 1) await hold;
      return registry.allow(request);
    };
    registry.onHeartbeat = () => {
      throw new AbortedError("register anew");
    };
    await eventually(() => asked === 1);
    registry.onHeartbeat = () => {};
    expect(await former.openSession(["dev-a"], 7, "disk-1", "host-1")).to.deep.equal([DONE]);
    registry.become(restored);
    release();
    await eventually(() => asked === 2);
    const again = registry.registrations.at(-1);
    expect(again).to.include({ ...numbers(CHILD), highestSessionNumber: 7 });
    expect(again?.devices[0]).to.include({ sessionNumber: 7, sessionDiskId: "disk-1" });
  });

  for (const [name, refuse] of [
    ["ABORTED", () => new AbortedError("register anew")],
    ["NOT_FOUND", () => new NotFoundError("no such host")],
  ] as const)
    it(`a heartbeat that is ${name} -> registers without a pause, and once for each heartbeat`, async () => {
      const forever = 3_600_000;
      await start({ registration: { minDelayMs: forever, maxDelayMs: forever } });
      await orders();
      const { length: before } = registry.heartbeats;
      registry.onHeartbeat = () => {
        throw refuse();
      };
      await eventually(() => registry.registrations.length >= 5);
      expect(registry.registrations.length - 1).to.be.at.most(registry.heartbeats.length - before);
    });

  it("a heartbeat that is refused -> it beats on, registers not, and says each reason once", async () => {
    await start();
    await orders();
    const beats = async (reason: string) => {
      const before = registry.heartbeats.length;
      registry.onHeartbeat = () => {
        throw new InvalidStateError(reason);
      };
      await eventually(() => registry.heartbeats.length >= before + 5);
    };
    const said = (reason: string) => {
      const lines = agent.process.logs.split("\n").filter((line) => line.includes('"a heartbeat failed"'));
      return lines.filter((line) => line.includes(reason)).length;
    };
    await beats("session 99 is too high");
    await beats("generation 98 is too high");
    await beats("session 99 is too high");
    expect([said("session 99 is too high"), said("generation 98 is too high")]).to.deep.equal([1, 1]);
    expect(registry.registrations).to.have.length(1);
    const before = registry.heartbeats.length;
    registry.onHeartbeat = () => {};
    await eventually(() => registry.heartbeats.length >= before + 2);
    await beats("session 99 is too high");
    expect(said("session 99 is too high")).to.equal(2);
  });

  it("a registry of the first release is replaced by a later one -> the agent registers at a heartbeat, and learns whom it obeys", async () => {
    registry.become({ ...PARENT, incarnation: "" });
    await start();
    const before = registry.registrations.length;
    registry.become({ ...PARENT, tabletGeneration: 6 });
    await eventually(() => expect(registry.registrations.length).to.be.above(before));
    await eventually(() => expect(registry.heartbeats.at(-1)?.incarnation).to.equal("parent"));
  });
});
