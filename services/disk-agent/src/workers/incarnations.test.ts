import { randomBytes } from "node:crypto";
import { AbortedError, InvalidStateError, NotFoundError, OutdatedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually, leaveToVerify } from "@diskmesh/testkit";
import { expect } from "chai";
import { NbdClient } from "../nbd/client.js";
import { AgentScene, ALREADY, DEVICE_BYTES, DONE } from "../testing/agent-scene.js";
import type { TestRegistry } from "../testing/test-registry.js";

const PARENT = { tabletId: "tablet-1", incarnation: "parent", tabletGeneration: 5 };
const CHILD = { tabletId: "tablet-1", incarnation: "child", tabletGeneration: 9 };

describe("an agent between incarnations", () => {
  const scene = AgentScene.forEachTest();

  beforeEach(() => scene.registry.become(PARENT));

  /** Makes the agent register and change over to the registry's new incarnation. */
  const changeOver = async (life: Parameters<TestRegistry["become"]>[0]) => {
    scene.registry.become(life);
    scene.registry.onHeartbeat = () => {
      throw new AbortedError("register anew");
    };
    await eventually(async () => expect(await scene.list()).to.include({ incarnation: scene.registry.incarnation }));
    scene.registry.onHeartbeat = () => {};
  };

  const restored = { ...CHILD, predecessors: [{ tabletId: "tablet-1", incarnation: "parent" }] };

  it("refuses the parent once it obeyed the child: orders, answers and adopters of the parent, also after kill -9", async () => {
    await scene.start();
    expect(await (await scene.orders()).attach("dev-a")).to.equal(ALREADY);
    scene.registry.answer = (request) => scene.registry.allow(request, ["dev-b"]);
    scene.registry.become(restored);
    scene.registry.onHeartbeat = () => {
      throw new AbortedError("register anew");
    };
    // The closed descriptor is the first visible effect of the answer.
    await eventually(() => scene.held("b") === 0, { everyMs: 1 });
    await scene.agent.process.kill();
    scene.registry.onHeartbeat = () => {};
    scene.registry.answer = (request) => scene.registry.allow(request);
    // Each of the two incarnations is refused for good, whatever predecessors it names.
    for (const predecessors of [[], [{ tabletId: "tablet-1", incarnation: "child" }]]) {
      scene.registry.become({ ...PARENT, tabletGeneration: 5_000, predecessors });
      const before = scene.registry.registrations.length;
      const refusals = () => scene.agent.process.logs.split("the registry was replaced").length;
      const refusalsBefore = refusals();
      await scene.agent.process.start();
      const parent = await scene.orders(before);
      await eventually(() => refusals() > refusalsBefore);
      const attach = scene.registry.nextGeneration("dev-b") + 1_000;
      const refused = [parent.attach("dev-b", attach), parent.openSession(["dev-a"], 99, "disk-1", "host-1")];
      for (const error of await Promise.all(refused.map((call) => rejection(call, OutdatedError)))) {
        expect(error.about).to.deep.equal({ host_id: "host-1", tablet_id: "tablet-1", incarnation: "child" });
      }
      expect(await scene.list()).to.include({ ...numbers(CHILD), highestDeviceGeneration: 2, highestSessionNumber: 0 });
      expect(scene.bothHeld).to.deep.equal([1, 0]);
      await scene.agent.process.kill();
    }
    scene.registry.become(CHILD);
    // Raises the generation above all numbers that were given.
    for (let given = 0; given < 10; given += 1) scene.registry.nextGeneration("dev-a");
    const before = scene.registry.registrations.length;
    await scene.agent.process.start();
    const child = await scene.orders(before);
    await eventually(() => expect(scene.registry.heartbeats.at(-1)).to.include({ bootId: child.bootId }));
    expect(await child.attach("dev-b")).to.equal(ALREADY);
    expect(scene.held("b")).to.equal(1);
  });

  const numbers = ({ tabletId, incarnation, tabletGeneration }: typeof PARENT) => ({
    tabletId,
    incarnation,
    highestTabletGeneration: tabletGeneration,
  });

  it("refuses orders and answers of an incarnation that is no successor, and names the leader", async function () {
    leaveToVerify(this);
    await scene.start();
    const order = await scene.orders();
    scene.registry.become({ ...PARENT, incarnation: "copy", tabletGeneration: 70 });
    const error = await rejection(order.detach("dev-a"), InvalidStateError);
    expect(error.about).to.deep.equal({ host_id: "host-1", tablet_id: "tablet-1", incarnation: "parent" });
    scene.registry.onHeartbeat = () => {
      throw new NotFoundError("no such host");
    };
    await eventually(() => expect(scene.agent.process.logs).to.match(/copy.*AdoptFleet/));
    expect(scene.bothHeld).to.deep.equal([1, 1]);
    expect(await scene.list()).to.include(numbers(PARENT));
  });

  it("obeys low generations of another tablet that adopts it, with devices open and exports served", async () => {
    await scene.start();
    const former = await scene.orders();
    expect(await former.openSession(["dev-a"], 7, "disk-1", "host-1")).to.deep.equal([DONE]);
    const extent = { deviceId: "dev-a", hostId: "host-1", address: scene.agent.address, sizeBytes: DEVICE_BYTES };
    const socketPath = await former.export("disk-1", 7, [extent]);
    expect(await former.detach("dev-b")).to.equal(DONE);
    const data = randomBytes(4096);
    const disk = await NbdClient.connect({ socketPath });
    await disk.write(0, data);
    scene.registry.answer = (request) => ({ ...scene.registry.allow(request), allowedDevices: [] });

    const lone = { tabletId: "tablet-2", incarnation: "lone", tabletGeneration: 1 };
    await changeOver({ ...lone, predecessors: [{ tabletId: "tablet-1", incarnation: "parent" }] });
    expect((await disk.read(0, 4096)).equals(data)).to.equal(true);
    await disk.write(4096, data);
    const listed = await scene.list();
    expect(listed).to.include({ ...numbers(lone), highestDeviceGeneration: 0, highestSessionNumber: 7 });
    expect(listed.devices.map(({ attached, stamp }) => [attached, stamp])).to.deep.equal([
      [true, undefined],
      [false, undefined],
    ]);
    expect(
      (await rejection(former.client.detachDevices(ordered(former.bootId, { ...PARENT, deviceGeneration: 999 })))).name,
    ).to.equal("OutdatedError");

    await scene.agent.process.kill();
    const before = scene.registry.registrations.length;
    await scene.agent.process.start();
    expect(scene.bothHeld).to.deep.equal([1, 0]);
    const latter = await scene.orders(before);
    const again = await NbdClient.connect({ socketPath });
    expect((await again.read(4096, 4096)).equals(data)).to.equal(true);
    await again.disconnect();
    await eventually(() => expect(scene.registry.heartbeats.at(-1)).to.include({ bootId: latter.bootId }));
    expect(await latter.attach("dev-b", 1)).to.equal(DONE);
    expect(await latter.detach("dev-a", 2)).to.equal(DONE);
    expect(scene.bothHeld).to.deep.equal([0, 1]);
    expect(await scene.list()).to.include({ ...numbers(lone), highestDeviceGeneration: 2, highestSessionNumber: 7 });
  });

  const ordered = (bootId: string, stamp: typeof PARENT & { deviceGeneration: number }) => ({
    bootId,
    devices: [{ deviceId: "dev-a", stamp, expected: undefined }],
  });

  it("sends the highest numbers in registrations, heartbeats and lists, and the devices' sessions, also ended ones", async () => {
    await scene.start();
    const first = await scene.registry.registered("host-1");
    const none = { tabletId: "", incarnation: "", highestTabletGeneration: 0 };
    expect(first).to.include({ ...none, highestDeviceGeneration: 0, highestSessionNumber: 0 });
    const order = await scene.orders();
    scene.registry.tabletGeneration = 6;
    expect(await order.attach("dev-a", 40)).to.equal(ALREADY);
    expect(await order.openSession(["dev-a"], 7, "disk-1", "host-1")).to.deep.equal([DONE]);
    const close = { stamp: scene.registry.stamp(), sessionNumber: 7, deviceIds: ["dev-a"] };
    await order.client.closeSession({ bootId: order.bootId, ...close });
    const erase = { stamp: scene.registry.stamp(), sessionNumber: 8, deviceId: "dev-b" };
    await order.client.eraseDevice({ bootId: order.bootId, ...erase });
    await order.unexport("disk-9", 9);

    const highest = {
      ...numbers({ ...PARENT, tabletGeneration: 6 }),
      highestDeviceGeneration: 40,
      highestSessionNumber: 9,
    };
    expect(await scene.list()).to.include(highest);
    await eventually(() => expect(scene.registry.heartbeats.at(-1)).to.include(highest));
    await scene.agent.process.kill();
    await scene.agent.process.start();
    const later = await scene.registry.registered("host-1", 1);
    expect(later).to.include(highest);
    expect(later.devices.map(({ sessionNumber, sessionDiskId }) => [sessionNumber, sessionDiskId])).to.deep.equal([
      [7, "disk-1"],
      [8, ""],
    ]);
  });

  it("registers again after a former incarnation's session arrived during the successor's answer", async function () {
    leaveToVerify(this);
    await scene.start();
    const former = await scene.orders();
    let release = () => {};
    const hold = new Promise<void>((resolve) => {
      release = resolve;
    });
    let asked = 0;
    scene.registry.answer = async (request) => {
      asked += 1;
      if (asked === 1) await hold;
      return scene.registry.allow(request);
    };
    scene.registry.onHeartbeat = () => {
      throw new AbortedError("register anew");
    };
    await eventually(() => asked === 1);
    scene.registry.onHeartbeat = () => {};
    expect(await former.openSession(["dev-a"], 7, "disk-1", "host-1")).to.deep.equal([DONE]);
    scene.registry.become(restored);
    release();
    await eventually(() => asked === 2);
    const again = scene.registry.registrations.at(-1);
    expect(again).to.include({ ...numbers(CHILD), highestSessionNumber: 7 });
    expect(again?.devices[0]).to.include({ sessionNumber: 7, sessionDiskId: "disk-1" });
  });

  for (const [name, refuse] of [
    ["ABORTED", () => new AbortedError("register anew")],
    ["NOT_FOUND", () => new NotFoundError("no such host")],
  ] as const)
    it(`registers without a delay, and once for each heartbeat that is ${name}`, async () => {
      const forever = 3_600_000;
      await scene.start({ tuning: { registration: { minDelayMs: forever, maxDelayMs: forever } } });
      await scene.orders();
      const { length: before } = scene.registry.heartbeats;
      scene.registry.onHeartbeat = () => {
        throw refuse();
      };
      await eventually(() => scene.registry.registrations.length >= 5);
      expect(scene.registry.registrations.length - 1).to.be.at.most(scene.registry.heartbeats.length - before);
    });

  it("keeps sending heartbeats that are refused, does not register, and logs each reason once", async () => {
    await scene.start();
    await scene.orders();
    const beats = async (reason: string) => {
      const before = scene.registry.heartbeats.length;
      scene.registry.onHeartbeat = () => {
        throw new InvalidStateError(reason);
      };
      await eventually(() => scene.registry.heartbeats.length >= before + 5);
    };
    const said = (reason: string) => {
      const lines = scene.agent.process.logs.split("\n").filter((line) => line.includes('"registry heartbeat failed"'));
      return lines.filter((line) => line.includes(reason)).length;
    };
    await beats("session 99 is too high");
    await beats("generation 98 is too high");
    await beats("session 99 is too high");
    expect([said("session 99 is too high"), said("generation 98 is too high")]).to.deep.equal([1, 1]);
    expect(scene.registry.registrations).to.have.length(1);
    const before = scene.registry.heartbeats.length;
    scene.registry.onHeartbeat = () => {};
    await eventually(() => scene.registry.heartbeats.length >= before + 2);
    await beats("session 99 is too high");
    expect(said("session 99 is too high")).to.equal(2);
  });
});
