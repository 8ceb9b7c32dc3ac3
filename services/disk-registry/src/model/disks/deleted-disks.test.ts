import { AlreadyExistsError, InvalidStateError, NotFoundError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  type DeviceFields,
  diskId,
  hostId,
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import type { Deletion } from "../store/deletion.js";
import { withDisk } from "../store/runs.js";
import { type Device, type Disk, type DiskRequest, schema } from "../store/schema.js";
import { deleteDisk, undeleteDisk } from "./deleted-disks.js";
import { createDisk, resizeDisk } from "./disks.js";
import { cancelDiskMoves, migrateDisk } from "./move-disk.js";
import { disksToErase, NoRoomError } from "./pressure.js";
import { requestPublish, requestUnpublish, requireDisk } from "./publications.js";

const x = diskId("x");
const by = "operator/ann";
const deleted: Deletion = { by, atMs: 1_000, untilMs: 61_000 };
const publication = { hostId: hostId("h1"), sessionNumber: 5, exportPath: "", attempts: 0, lastError: "" };
const limits = { maxDisks: 100, maxDevicesPerDisk: 2, erasingRetryAfterMs: 500 };
const request: DiskRequest = { sizeBytes: 64 * MIB, az: "z1", hostId: "", pool: "default", spreadRacks: false };

const fleetOf = (disk: Partial<Disk>) =>
  new TestFleet({ devices: [aDevice("d1", { diskId: x })], disks: [aDisk("x", ["d1"], disk)] });

describe("deletion of a disk", () => {
  const cases: readonly [cause: string, disk: Partial<Disk>, graceMs: number, skipGrace: boolean, effect: unknown][] = [
    ["no grace", {}, 0, false, "erased"],
    ["a grace", {}, 60_000, false, deleted],
    ["a grace that the caller skips", {}, 60_000, true, "erased"],
    ["deleted before", { deleted: { ...deleted, by: "other" } }, 9, false, { ...deleted, by: "other" }],
    ["deleted before, in a pool that has no grace any more", { deleted }, 0, false, deleted],
    ["deleted before, and now erased", { deleted }, 60_000, true, "erased"],
  ];
  for (const [cause, disk, graceMs, skipGrace, effect] of cases)
    it(`${cause} -> ${typeof effect === "string" ? effect : "kept"}`, () => {
      const fleet = fleetOf(disk);
      const pools: string[] = [];
      const graceMsOf = (pool: string) => {
        pools.push(pool);
        return graceMs;
      };
      const { freed, untilMs } = fleet.transact((tx) => deleteDisk(tx, x, { by, nowMs: 1_000, graceMsOf, skipGrace }));
      const kept = fleet.tables.disks.get(x)?.deleted;
      expect(kept ?? "erased").to.deep.equal(effect);
      expect(freed).to.deep.equal(kept === undefined ? ["d1"] : []);
      expect(untilMs).to.equal(kept?.untilMs);
      expect(fleet.seen("d1").dirty).to.equal(kept === undefined);
      expect(new Set(pools)).to.deep.equal(new Set(skipGrace ? [] : ["default"]));
    });

  it("is refused for a published disk, with a grace or without", () => {
    const fleet = fleetOf({ publication: { ...publication, state: "PUBLISHED" } });
    for (const graceMs of [0, 1])
      expect(() =>
        fleet.transact((tx) => deleteDisk(tx, x, { by, nowMs: 0, graceMsOf: () => graceMs, skipGrace: false })),
      ).to.throw(InvalidStateError, "PUBLISHED to host h1");
  });

  it("hides the disk from all calls but those that bring it back or cancel its moves", () => {
    const fleet = fleetOf({ deleted });
    const calls = [
      () => requireDisk(fleet.tables, x),
      () => fleet.transact((tx) => requestPublish(tx, x, hostId("h1"))),
      () => fleet.transact((tx) => requestUnpublish(tx, x, undefined)),
      () => fleet.transact((tx) => resizeDisk(tx, x, 1, limits, { draw: 0 })),
      () => fleet.transact((tx) => migrateDisk(tx, x, "", 0)),
    ];
    const says = "disk x was deleted by operator/ann at 1970-01-01T00:00:01Z and is kept until 1970-01-01T00:01:01Z";
    for (const call of calls) expect(call, String(call)).to.throw(NotFoundError, says);
    expect(() =>
      fleet.transact((tx) => createDisk(tx, x, request, { labels: [] }, limits, { nowMs: 9, draw: 0 })),
    ).to.throw(AlreadyExistsError, "`diskmesh undelete x`, or erase it with `diskmesh delete x --now`");
    fleet.transact((tx) => cancelDiskMoves(tx, x));
    expect(fleet.transact((tx) => undeleteDisk(tx, x))).to.deep.equal(aDisk("x", ["d1"]));
    expect(requireDisk(fleet.tables, x)).to.deep.equal(aDisk("x", ["d1"]));
  });

  it("does not come back from a backup, which does not know whether the disk was brought back later", () => {
    expect(schema.disks.onRestore?.(aDisk("x", ["d1"], { deleted }), 0)).to.deep.equal(aDisk("x", ["d1"]));
  });
});

describe("erasing deleted disks for one that has no other room", () => {
  /** Each disk has a device of its own; the oldest deletion is the first. */
  const sized = (id: string, mib: number, device: DeviceFields = {}, disk: Partial<Disk> = {}): [Device, Disk] => [
    aDevice(`on-${id}`, { sizeBytes: mib * MIB, diskId: diskId(id), ...device }),
    aDisk(id, [`on-${id}`], { deleted: { ...deleted, atMs: id.charCodeAt(0) }, sizeBytes: mib * MIB, ...disk }),
  ];
  const of = (pairs: readonly [Device, Disk][], devices: readonly Device[] = [], hosts = [aHost("h1"), aHost("h2")]) =>
    new TestFleet({
      hosts,
      devices: [...pairs.map(([device]) => device), ...devices],
      disks: pairs.map(([, disk]) => disk),
    });
  const needs = (mib: number, more: Partial<DiskRequest> = {}) => ({
    request: { ...request, sizeBytes: mib * MIB, ...more },
    limits: { maxDevices: 2, draw: 0 },
  });
  const h2 = { hostId: hostId("h2") };
  const unknownSession = { sessionNumber: 9, diskId: diskId("ghost") };
  const suspected = { limits: { maxDevices: 2, draw: 0, whySuspected: () => "silent" } };
  const z2 = [aHost("h1"), aHost("h2", { az: "z2" })];
  const cases: readonly [string, TestFleet, ReturnType<typeof needs>, string][] = [
    ["one suffices -> the oldest", of([sized("a", 8), sized("b", 8)]), needs(8), "a"],
    ["two are needed -> the two oldest", of([sized("a", 8), sized("b", 8), sized("c", 8)]), needs(16), "ab"],
    ["a disk has at most two devices -> none", of([sized("a", 8), sized("b", 8), sized("c", 8)]), needs(24), ""],
    ["all do not suffice -> none", of([sized("a", 8), sized("b", 8)]), needs(17), ""],
    [
      "free space helps -> fewer",
      of([sized("a", 8), sized("b", 8)], [aDevice("f", { sizeBytes: 8 * MIB })]),
      needs(16),
      "a",
    ],
    ["an older one is too small to help -> spared", of([sized("a", 1), sized("b", 8)]), needs(8), "b"],
    ["of another pool -> none", of([sized("a", 8)]), needs(8, { pool: "fast" }), ""],
    ["on another host -> none", of([sized("a", 8)]), needs(8, { az: "", ...h2 }), ""],
    ["on the host -> that one", of([sized("a", 8), sized("b", 8, h2)]), needs(8, { az: "", ...h2 }), "b"],
    ["in another az -> none", of([sized("a", 8, h2)], [], z2), needs(8), ""],
    ["on a device in error -> none", of([sized("a", 8, { health: "ERROR" })]), needs(8), ""],
    ["on a device to be removed -> none", of([sized("a", 8, { removalRequested: true })]), needs(8), ""],
    [
      "on a host that takes nothing new -> none",
      of([sized("a", 8)], [], [aHost("h1", { state: "WARNING" })]),
      needs(8),
      "",
    ],
    ["on a suspected host -> none", of([sized("a", 8)]), { ...needs(8), ...suspected }, ""],
    ["an unknown disk may be there -> none", of([sized("a", 8, { unknownSession })]), needs(8), ""],
    [
      "being fenced -> none",
      of([sized("a", 8, {}, { publication: { ...publication, state: "UNPUBLISHING" } })]),
      needs(8),
      "",
    ],
    ["a live disk -> never", of([sized("a", 8, {}, { deleted: undefined })]), needs(8), ""],
  ];
  for (const [rule, fleet, needed, ids] of cases)
    it(rule, () => {
      const found = disksToErase(fleet.tables, needed).map((disk) => disk.diskId);
      expect(found.join("")).to.equal(ids);
    });

  it("counts slices of one device, without their free neighbours twice", () => {
    const sliced = aDevice("s", { sizeBytes: 9 * MIB, sliceBytes: MIB });
    const [one, two] = [diskId("a"), diskId("b")];
    const device = withDisk(withDisk(sliced, one, { first: 0, count: 3 }), two, { first: 3, count: 3 });
    const disks = [one, two].map((id) => aDisk(id, ["s"], { deleted: { ...deleted, atMs: id.charCodeAt(0) } }));
    const fleet = new TestFleet({ devices: [device], disks });
    const toErase = (mib: number, maxDevices = 1) =>
      disksToErase(fleet.tables, { ...needs(mib), limits: { maxDevices, draw: 0 } }).map((disk) => disk.diskId);
    expect(toErase(3)).to.deep.equal(["b"]);
    expect(toErase(7)).to.deep.equal(["a", "b"]);
    expect(toErase(8)).to.deep.equal([]);
    expect(toErase(9, 2), "of 8 slices").to.deep.equal([]);
  });

  it("a registry with too many disks erases the oldest one", () => {
    const fleet = of([sized("a", 8), sized("b", 8)]);
    expect(disksToErase(fleet.tables, undefined).map((disk) => disk.diskId)).to.deep.equal(["a"]);
    const create = () =>
      fleet.transact((tx) =>
        createDisk(tx, x, request, { labels: [] }, { ...limits, maxDisks: 2 }, { nowMs: 9, draw: 0 }),
      );
    expect(create).to.throw(NoRoomError, "exceeds the limit of 2 disks").with.property("needed", undefined);
  });

  it("is asked for by refusals that nothing else cures: of a creation and of an enlargement", () => {
    const unheard = [aHost("h1", { mustRegister: true }), aHost("h2")];
    const refusal = (fleet: TestFleet) => {
      try {
        fleet.transact((tx) => createDisk(tx, x, request, { labels: [] }, limits, { nowMs: 9, draw: 0 }));
      } catch (error) {
        return error;
      }
      return undefined;
    };
    expect(refusal(of([sized("a", 64)]))).to.be.instanceOf(NoRoomError);
    expect(refusal(of([sized("a", 64)], [aDevice("f", { dirty: true })])), "fits soon").not.to.be.instanceOf(
      NoRoomError,
    );
    expect(refusal(of([sized("a", 64, h2)], [aDevice("f")], unheard)), "may fit soon").not.to.be.instanceOf(
      NoRoomError,
    );
    const live = fleetOf({});
    expect(() => live.transact((tx) => resizeDisk(tx, x, 65 * MIB, limits, { draw: 0 })))
      .to.throw(NoRoomError)
      .with.nested.property("needed.request.sizeBytes", MIB);
  });
});
