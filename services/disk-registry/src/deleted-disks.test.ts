import { AdminServiceDefinition, SubjectKind } from "@diskmesh/api/common";
import { OrderOutcome } from "@diskmesh/api/internal";
import type { Disk } from "@diskmesh/api/registry";
import { AlreadyExistsError, MIB_BYTES, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { refused } from "./testing/calls.js";
import { SharedRegistry } from "./testing/shared-registry.js";
import { Watcher } from "./testing/watcher.js";

const HOUR_MS = 3_600_000;
const SIZE = 64 * MIB_BYTES;
const says = "bring it back with `diskmesh undelete x`";

describe("deleted disks that are kept", () => {
  const fleet = SharedRegistry.forAllTests();
  const start = (deleteGraceMs: number) => fleet.startOwn({ pools: { default: { deleteGraceMs } } });
  const idsOf = (disks: readonly Disk[]) => disks.map(({ diskId }) => diskId);
  const listed = async (showDeleted: boolean) =>
    idsOf((await fleet.registry.operator.listDisks({ showDeleted })).disks);
  const capacity = async () => (await fleet.registry.operator.getCapacity({})).pools[0];
  const eventsOf = async (action: string) => {
    const { events } = await fleet.registry.operator.listFleetEvents({ action });
    return events.map(({ diskIds, message }) => `${diskIds}: ${message}`);
  };

  it("exist for nobody but their own list, and come back as they were", async () => {
    await start(HOUR_MS);
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    const { disk } = await fleet.createDisk("x", { sizeBytes: SIZE, labels: [{ name: "app", value: "db" }] });
    const watcher = new Watcher((options) => operator.watchDisks({}, options));
    expect(await watcher.next(3)).to.deep.equal(["begin", "x ONLINE", "end"]);
    const { purgeTime } = await operator.deleteDisk({ diskId: "x" });
    expect(purgeTime).to.be.above(new Date(Date.now() + HOUR_MS / 2));
    expect(await operator.deleteDisk({ diskId: "x" })).to.deep.equal({ purgeTime });
    await eventually(() => expect(watcher.seen.at(-1)).to.equal("-x"));

    expect(await listed(false)).to.deep.equal([]);
    expect(await listed(true)).to.deep.equal(["x"]);
    expect(await capacity()).to.include({ freeBytes: 0, deletedBytes: SIZE });
    const calls = {
      get: () => operator.getDisk({ diskId: "x" }),
      publish: () => operator.publishDisk({ diskId: "x", hostId: "h1" }),
      unpublish: () => operator.unpublishDisk({ diskId: "x" }),
      resize: () => operator.resizeDisk({ diskId: "x", sizeBytes: 2 * SIZE }),
      labels: () => operator.setDiskLabels({ diskId: "x" }),
      limits: () => operator.setDiskLimits({ diskId: "x" }),
      migrate: () => operator.migrateDisk({ diskId: "x" }),
      replace: () => operator.replaceDevice({ diskId: "x", deviceId: "d1" }),
    };
    for (const [what, call] of Object.entries(calls))
      expect((await rejection(call(), NotFoundError)).message, what).to.match(/^disk x was deleted by operator at /);
    await rejection(fleet.createDisk("x", { sizeBytes: SIZE }), AlreadyExistsError, says);
    await rejection(fleet.createDisk("x", { sizeBytes: SIZE }), AlreadyExistsError, "diskmesh delete x --now");
    const admin = fleet.registry.operatorOf(AdminServiceDefinition);
    const { summary, causes } = await admin.explain({ subject: { kind: SubjectKind.DISK, name: "x" } });
    expect(summary).to.equal("disk x is deleted");
    expect(causes.map(({ reason }) => reason)).to.deep.equal(["DELETED"]);
    expect((await admin.listTroubles({})).objects).to.deep.equal([]);

    const { disk: back } = await operator.undeleteDisk({ diskId: "x" });
    expect(back).to.deep.equal(disk);
    expect((await operator.undeleteDisk({ diskId: "x" })).disk).to.deep.equal(disk);
    await eventually(() => expect(watcher.seen.at(-1)).to.equal("x ONLINE"));
    await watcher.end();
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
  });

  it("are erased at once where the caller or the pool says so, and cannot come back then", async () => {
    await start(HOUR_MS);
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x", { sizeBytes: SIZE });
    await operator.deleteDisk({ diskId: "x" });
    expect(await operator.deleteDisk({ diskId: "x", skipGrace: true })).to.deep.equal({ purgeTime: undefined });
    await fleet.clean("d1");
    await rejection(operator.undeleteDisk({ diskId: "x" }), NotFoundError, "there is no disk x");
    await fleet.createDisk("x", { sizeBytes: SIZE });
    await operator.deleteDisk({ diskId: "x", skipGrace: true });
    expect(await listed(true)).to.deep.equal([]);
  });

  it("are erased when their time has passed", async () => {
    await start(50);
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x", { sizeBytes: SIZE });
    await operator.deleteDisk({ diskId: "x" });
    await eventually(async () => expect(await listed(true)).to.deep.equal([]));
    await fleet.clean("d1");
    expect(await eventsOf("DeletedDiskErased")).to.deep.equal(["x: its time has passed"]);
  });

  it("are erased for a disk that has no other room, the oldest first and no more than it needs", async () => {
    await start(HOUR_MS);
    const { operator } = fleet.registry;
    const agent = await fleet.readyAgent("h1", ["d1", "d2", "d3"]);
    for (const diskId of ["x", "y", "z"]) {
      await fleet.createDisk(diskId, { sizeBytes: SIZE });
      await operator.deleteDisk({ diskId });
    }
    await rejection(fleet.createDisk("w", { sizeBytes: 4 * SIZE }), ResourceExhaustedError, "add devices");
    expect(await listed(true), "all of them would not suffice").to.deep.equal(["x", "y", "z"]);
    agent.beforeErase = async () => OrderOutcome.PENDING;
    const refusal = await rejection(fleet.createDisk("w", { sizeBytes: SIZE }), ResourceExhaustedError, "being erased");
    expect(refusal.retryAfterMs).to.equal(1_000);
    expect(await listed(true)).to.deep.equal(["y", "z"]);
    const [event = "", ...others] = await eventsOf("DeletedDiskErased");
    expect(event).to.equal(`x: before its time, because a disk of ${SIZE} bytes of pool default has no other room`);
    expect(others).to.deep.equal([]);
  });

  it("a removal of their host names the command that erases them where no other device has room", async () => {
    await start(HOUR_MS);
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x", { sizeBytes: SIZE });
    await operator.deleteDisk({ diskId: "x" });
    const before = await fleet.remove();
    expect(before?.code).to.equal("ACTION_CODE_E_TRY_AGAIN");
    expect(before?.message).to.contain("diskmesh delete x --now");
    await operator.deleteDisk({ diskId: "x", skipGrace: true });
    await eventually(async () => expect((await fleet.remove())?.code).to.equal("ACTION_CODE_S_OK"));
  });

  it("a removal of their host moves them like idle disks", async () => {
    await start(HOUR_MS);
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x", { sizeBytes: SIZE });
    await operator.deleteDisk({ diskId: "x" });
    await fleet.readyAgent("h2", ["d2"]);
    await eventually(async () => expect((await fleet.remove())?.code).to.equal("ACTION_CODE_S_OK"));
    const { disk } = await operator.undeleteDisk({ diskId: "x" });
    expect(disk?.parts.flatMap(({ copies }) => copies.map(({ deviceId }) => deviceId))).to.deep.equal(["d2"]);
  });

  it("refuses bad input: a disk that never was, a published one, a malformed id", async () => {
    await start(HOUR_MS);
    const { operator } = fleet.registry;
    await fleet.readyAgent("h1", ["d1"]);
    await fleet.createDisk("x", { sizeBytes: SIZE });
    await operator.publishDisk({ diskId: "x", hostId: "h1" });
    await refused(operator.undeleteDisk({ diskId: "never" }), "NotFoundError", "there is no disk never");
    for (const skipGrace of [false, true])
      await refused(operator.deleteDisk({ diskId: "x", skipGrace }), "InvalidStateError", "PUBLISHED to host h1");
    await refused(operator.undeleteDisk({ diskId: "x\ny" }), "InvalidArgumentError", "disk_id");
  });
});
