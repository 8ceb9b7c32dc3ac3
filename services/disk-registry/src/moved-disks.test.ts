import { MirrorState, OrderOutcome } from "@diskmesh/api/internal";
import { AttachState, CopyState, devicesWithBytes, Health, MoveReason } from "@diskmesh/api/registry";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { SharedRegistry } from "./testing/shared-registry.js";
import type { TestAgent } from "./testing/test-agent.js";

describe("disks that move", () => {
  const fleet = SharedRegistry.forAllTests();

  const lies = (diskId: string, deviceId: string) =>
    eventually(async () => {
      const disk = await fleet.registry.disk(diskId);
      expect(devicesWithBytes(disk), disk.parts[0]?.move?.message).to.deep.equal([deviceId]);
      expect(disk.parts.flatMap(({ copies }) => copies)).to.have.length(1);
      return disk;
    });
  const says = (hostId: string, text: RegExp) =>
    eventually(async () => {
      const result = await fleet.remove(hostId);
      expect(result?.message).to.match(text);
      return result;
    });

  /** Disk x lies on d1 of h1. Host h2 has d2, and, if asked for, uses the disk. */
  async function scene(isInUse: boolean): Promise<{ source: TestAgent; target: TestAgent }> {
    const source = await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x");
    const target = await fleet.readyAgent("h2", ["d2"]);
    if (isInUse) await fleet.registry.operator.publishDisk({ diskId: "x", hostId: "h2" });
    return { source, target };
  }

  it("RemoveHost copies a disk that is not in use, says how far it is, and ends by itself after a kill", async () => {
    const { source, target } = await scene(false);
    target.copying = { outcome: OrderOutcome.PENDING, copiedBytes: 2 ** 20 };
    const first = await says("h1", /host h2 copies device d1 to device d2 on host h2: 63 MiB of 64 MiB left/);
    expect(first).to.include({ code: "ACTION_CODE_E_TRY_AGAIN" });
    expect(first?.dependentDiskIds).to.deep.equal(["x"]);
    const { parts } = await fleet.registry.disk("x");
    expect(parts[0]?.move).to.include({ reason: MoveReason.REMOVAL, copiedBytes: 2 ** 20 });
    expect(parts[0]?.copies.map(({ state }) => state)).to.deep.equal([CopyState.COUNTS, CopyState.COPYING]);
    expect(source.sessions.get("d1")).to.include({ holderHostId: "h2", diskId: "x" });
    await fleet.registry.process.kill();
    target.copying = { outcome: OrderOutcome.DONE, copiedBytes: 2 ** 26 };
    await fleet.registry.process.start();
    await lies("x", "d2");
    await fleet.inState("d1", AttachState.DETACHED);
  });

  it("a copy whose source fails goes on in its session, and in another one after a failure of the target", async () => {
    const { source, target } = await scene(false);
    const failed = { outcome: OrderOutcome.IO_ERROR, copiedBytes: 2 ** 20, resumeToken: "so far" };
    target.copying = failed;
    await says("h1", /IO_ERROR/);
    const session = source.sessions.get("d1")?.sessionNumber;
    await eventually(() => expect(target.resumeToken).to.equal("so far"));
    expect(source.sessions.get("d1")?.sessionNumber).to.equal(session);
    target.copying = { ...failed, resumeToken: "" };
    await eventually(() => expect(source.sessions.get("d1")?.sessionNumber).to.be.above(session ?? 0));
    await eventually(() => expect(target.resumeToken).to.equal(""));
    target.copying = { outcome: OrderOutcome.DONE, copiedBytes: 2 ** 26 };
    await lies("x", "d2");
  });

  it("RemoveHost has the holder of a disk mirror it, in the holder's session, and ends by itself after a kill", async () => {
    const { target: holder } = await scene(true);
    holder.mirror = { state: MirrorState.COPYING, copiedBytes: 2 ** 20 };
    const session = (await fleet.registry.disk("x")).publication?.sessionNumber;
    await says("h1", /host h2, which uses it, copies device d1 to device d2 on host h2: 63 MiB of 64 MiB left/);
    await fleet.registry.process.kill();
    holder.mirror = { state: MirrorState.EQUAL };
    await fleet.registry.process.start();
    await fleet.inState("d1", AttachState.DETACHED);
    const disk = await lies("x", "d2");
    expect(disk.publication?.sessionNumber).to.equal(session);
    expect(holder.served).to.deep.equal(["x on d1", "x on d1 and d2", "x on d2"]);
    const events = await fleet.registry.operator.listFleetEvents({ diskId: "x" });
    expect(events.events.map(({ action }) => action)).to.include.members(["MoveBegun", "MoveCutOver"]);
  });

  it("a disk is copied as soon as another leaves its turn, also to an operator's cancel", async () => {
    const ids = Array.from({ length: 18 }, (_, index) => `${index}`);
    await fleet.readyAgent(
      "h1",
      ids.map((id) => `s${id}`),
    );
    for (const id of ids) await fleet.createDisk(`disk-${id}`, { sizeBytes: 2 ** 26 });
    const targets = ids.map((id) => `t${id}`);
    const target = await fleet.readyAgent("h2", targets);
    target.copying = { outcome: OrderOutcome.PENDING, copiedBytes: 0 };
    await fleet.remove("h1");
    const disks = async (copies: number) => {
      const { disks: all } = await fleet.registry.operator.listDisks({});
      return all.filter(({ parts }) => parts.some((part) => part.copies.length === copies));
    };
    await eventually(async () => expect(await disks(2)).to.have.length(16));
    const [first] = await disks(2);
    await fleet.registry.operator.cancelMove({ diskId: first?.diskId ?? "" });
    await eventually(async () => {
      const copying = (await disks(2)).map(({ diskId }) => diskId);
      expect(copying).to.have.length(16).and.not.include(first?.diskId);
    });
    target.copying = { outcome: OrderOutcome.DONE, copiedBytes: 2 ** 26 };
    const moved = async () => (await disks(1)).filter((disk) => targets.includes(devicesWithBytes(disk)[0] ?? ""));
    await eventually(async () => expect(await moved()).to.have.length(17));
  });

  it("a source that fails once both copies are equal is left at once", async () => {
    const { target: holder } = await scene(true);
    holder.mirror = { state: MirrorState.FAILED, failedDeviceId: "d1", message: "d1 is broken" };
    await fleet.registry.operator.replaceDevice({ diskId: "x", deviceId: "d1" });
    await lies("x", "d2");
    await eventually(() => expect(holder.served.at(-1)).to.equal("x on d2"));
  });

  it("leaves its new device, too, when that is to be removed since the mirror was asked for the last time", async () => {
    const { target: holder } = await scene(true);
    await fleet.readyAgent("h3", ["d3"]);
    let isFirst = true;
    holder.beforeMirror = async () => {
      if (isFirst) await fleet.registry.operator.removeDevice({ deviceId: "d2" });
      isFirst = false;
    };
    await fleet.registry.operator.migrateDisk({ diskId: "x", hostId: "h2" });
    await fleet.inState("d2", AttachState.DETACHED);
    await lies("x", "d3");
  });

  for (const isInUse of [false, true])
    it(`a reload changes the rate of a running copy of a disk that is ${isInUse ? "" : "not "}in use`, async () => {
      await fleet.startOwn({ moves: { bytesPerSecondOfHost: 4_000 } });
      const { target } = await scene(isInUse);
      target.copying = { outcome: OrderOutcome.PENDING, copiedBytes: 0 };
      target.mirror = { state: MirrorState.COPYING, copiedBytes: 0 };
      await fleet.registry.operator.migrateDisk({ diskId: "x" });
      await eventually(() => expect(target.bytesPerSecond).to.equal(2_000));
      const { process } = fleet.registry;
      process.reload({ ...process.config, moves: { bytesPerSecondOfHost: 10_000 } });
      await eventually(() => expect(target.bytesPerSecond).to.equal(5_000));
      let copiedBytes = 0;
      await eventually(async () => {
        copiedBytes += 100;
        target.copying = { outcome: OrderOutcome.PENDING, copiedBytes };
        target.mirror = { state: MirrorState.COPYING, copiedBytes };
        const [part] = (await fleet.registry.disk("x")).parts;
        expect(part?.move?.message).to.match(/\/s of at most 4\.9 KiB\/s, about \d+ (s|min|h) left/);
      });
      expect(process.logs).to.match(/config reloaded: log level \w+"/);
    });

  it("a device that turns WARNING by itself is left in pools of the config, and not after an operator's word", async () => {
    await fleet.startOwn({ moves: { failingDevicesOfPools: ["default"] } });
    const { source } = await scene(false);
    const { operator } = fleet.registry;
    await operator.setDeviceState({ deviceIds: ["d1"], health: Health.WARNING, reason: "it rattles" });
    await operator.setDeviceState({ deviceIds: ["d1"], health: Health.ONLINE, reason: "" });
    expect((await fleet.registry.disk("x")).parts[0]?.move).to.equal(undefined);
    await source.heartbeat("h1", source.bootId, {
      changed: [{ deviceId: "d1", health: Health.WARNING, healthMessage: "reallocated sectors" }],
    });
    await lies("x", "d2");
  });

  it("a move from a failing device that an operator has cancelled begins again only when the device fails anew", async () => {
    await fleet.startOwn({ moves: { failingDevicesOfPools: ["default"] } });
    const { source, target } = await scene(false);
    target.copying = { outcome: OrderOutcome.PENDING, copiedBytes: 0 };
    const report = (health: Health) =>
      source.heartbeat("h1", source.bootId, { changed: [{ deviceId: "d1", health, healthMessage: "worn" }] });
    const moveOfX = async () => (await fleet.registry.disk("x")).parts[0]?.move;
    await report(Health.WARNING);
    await eventually(async () => expect(await moveOfX()).to.include({ reason: MoveReason.HEALTH }));
    await fleet.registry.operator.cancelMove({ diskId: "x" });
    await fleet.registry.process.kill();
    await fleet.registry.process.start();
    await fleet.clean("d2");
    expect(await moveOfX()).to.equal(undefined);
    // The agent's connection may still wait before it tries the restarted registry.
    await eventually(() => report(Health.ONLINE));
    await report(Health.WARNING);
    await eventually(async () => expect(await moveOfX()).to.include({ reason: MoveReason.HEALTH }));
  });
});
