import { randomOf } from "@diskmesh/tablet/testing";
import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  deletedNow,
  deviceId,
  diskId,
  hostId,
  leader,
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { registration, reported } from "../../testing/registrations.js";
import { beginErase, completeErase } from "../devices/erase.js";
import { sessionsOn } from "../devices/remembered-runs.js";
import { distrusted } from "../devices/reported-devices.js";
import { decideUnknown } from "../hosts/decide-unknown.js";
import { registerAgent } from "../hosts/registration.js";
import { runAt } from "../store/runs.js";
import type { Device, Disk } from "../store/schema.js";
import { MAX_RUNS_OF_DEVICE, partBytesIn, sliceCount } from "../store/slices.js";
import { type Allocation, allocate } from "./allocation.js";
import { createDisk, resizeDisk } from "./disks.js";
import { completeChange, groupsOfOwnSessions } from "./export-changes.js";
import { cancelDiskMoves, migrateDisk } from "./move-disk.js";
import { chooseTarget } from "./move-target.js";
import { beginTarget, beginTry, completeCopy, cutOver, type Mirroring, planMove } from "./moves.js";
import { requestPublish } from "./publications.js";
import { coveredRuns, planSession } from "./session-plan.js";

const KIB = 1_024;
const request = { az: "z1", hostId: "" as const, pool: "default", spreadRacks: false };
const limits = { maxDisks: 1_000, maxDevicesPerDisk: 8, erasingRetryAfterMs: 5_000 };
/** A drive of so many slices of 1 MiB. */
const drive = (id: string, slices: number, fields: Partial<Device> = {}) =>
  aDevice(id, { sizeBytes: slices * MIB + 64 * KIB, sliceBytes: MIB, ...fields });

function create(fleet: TestFleet, id: string, sizeBytes: number) {
  const properties = { labels: [] };
  const choice = { draw: 0, nowMs: 1 };
  return fleet.transact((tx) => createDisk(tx, diskId(id), { ...request, sizeBytes }, properties, limits, choice));
}

function grow(fleet: TestFleet, id: string, sizeBytes: number) {
  return fleet.transact((tx) => resizeDisk(tx, diskId(id), sizeBytes, limits, { draw: 0 }));
}

function erase(fleet: TestFleet, id: string): string {
  const order = fleet.transact((tx) => beginErase(tx, fleet.device(id).deviceId));
  if (order === undefined) return "nothing";
  fleet.transact((tx) => completeErase(tx, order.deviceId, order.sessionNumber));
  return shown(fleet, id);
}

const shown = (fleet: TestFleet, id: string): string =>
  fleet
    .device(id)
    .runs.map(({ first, count, diskId: of }) => `${of || "dirty"} ${first}+${count}`)
    .join(", ");

describe("disks on a device with slices", () => {
  it("take what they ask for, grow in place, and leave their slices dirty until these are erased", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16)] });
    const a = create(fleet, "a", 2 * MIB);
    expect(a).to.include({ sizeBytes: 2 * MIB });
    expect(a.parts).to.deep.equal([
      { sizeBytes: a.sizeBytes, copies: [{ deviceId: "d1", first: 0, state: "COUNTS" }] },
    ]);
    create(fleet, "b", MIB);
    expect(shown(fleet, "d1")).to.equal("a 0+3, b 3+2");
    expect(grow(fleet, "b", 4 * MIB).parts, "one part still").to.have.length(1);
    expect(shown(fleet, "d1")).to.equal("a 0+3, b 3+5");
    expect(grow(fleet, "a", 3 * MIB - 64 * KIB).parts, "its run has room").to.have.length(1);
    expect(grow(fleet, "a", 4 * MIB + 1).parts, "b is in the way").to.have.length(2);
    expect(fleet.disk("a").sizeBytes).to.equal(4 * MIB + 4 * KIB);
    expect(shown(fleet, "d1")).to.equal("a 0+3, b 3+5, a 8+2");
    expect(fleet.transact((tx) => deletedNow(tx, diskId("a")))).to.deep.equal(["d1", "d1"]);
    expect(shown(fleet, "d1")).to.equal("dirty 0+3, b 3+5, dirty 8+2");
    expect(erase(fleet, "d1")).to.equal("b 3+5, dirty 8+2");
    expect(erase(fleet, "d1")).to.equal("b 3+5");
    expect(erase(fleet, "d1")).to.equal("nothing");
  });

  it("of 0.1.0 keep the whole device, which is divided once it is erased", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16, { diskId: diskId("a") } as Partial<Device>)] });
    expect(() => create(fleet, "b", MIB)).to.throw("does not fit");
    fleet.transact((tx) => tx.devices.put({ ...fleet.device("d1"), runs: [{ first: 0, diskId: "" }] }));
    expect(() => create(fleet, "b", MIB)).to.throw("1 device is being erased");
    expect(erase(fleet, "d1")).to.equal("");
    create(fleet, "b", MIB);
    expect(shown(fleet, "d1")).to.equal("b 0+2");
  });

  it("leave their last session to their dirty slices, as the agent remembers it", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16)] });
    const disk = { ...create(fleet, "a", MIB), lastSessionNumber: 190 };
    fleet.transact((tx) => tx.disks.put(disk));
    const sessions = () => sessionsOn(fleet.tables, fleet.device("d1")).map(({ sessionNumber }) => sessionNumber);
    expect(sessions()).to.deep.equal([190]);
    fleet.transact((tx) => deletedNow(tx, diskId("a")));
    expect(sessions()).to.deep.equal([190]);
    fleet.transact((tx) => beginErase(tx, fleet.device("d1").deviceId));
    expect(sessions()).to.deep.equal([201]);
  });

  it("an erase goes on when slices before it become dirty", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16)] });
    create(fleet, "a", MIB);
    create(fleet, "b", MIB);
    fleet.transact((tx) => deletedNow(tx, diskId("b")));
    const order = fleet.transact((tx) => beginErase(tx, fleet.device("d1").deviceId));
    fleet.transact((tx) => deletedNow(tx, diskId("a")));
    expect(fleet.transact((tx) => beginErase(tx, fleet.device("d1").deviceId))).to.deep.equal(order);
    fleet.transact((tx) => completeErase(tx, fleet.device("d1").deviceId, order?.sessionNumber ?? 0));
    expect(shown(fleet, "d1")).to.equal("dirty 0+2");
  });

  it("that are published keep their session when they grow in place, and their host gets a new revision", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16)] });
    create(fleet, "a", MIB);
    fleet.transact((tx) => requestPublish(tx, diskId("a"), hostId("h1")));
    const { publication } = fleet.disk("a");
    const sessionNumber = publication?.sessionNumber ?? 0;
    const published = {
      ...fleet.disk("a"),
      publication: publication && { ...publication, state: "PUBLISHED" as const },
    };
    fleet.transact((tx) => tx.disks.put(published));
    const { parts, publication: after } = grow(fleet, "a", 3 * MIB);
    expect(parts[0]?.copies).to.deep.equal([{ deviceId: "d1", first: 0, state: "COUNTS", sessionNumber }]);
    expect(after).to.include({ sessionNumber, revision: (publication?.revision ?? 0) + 1 });
  });

  /** Disk a has two runs on d1, of slices of 1 MiB; d2 of host h2 has slices of 4 MiB. */
  function withMove() {
    const d2 = { sizeBytes: 17 * MIB, sliceBytes: 4 * MIB, hostId: hostId("h2") };
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2", { state: "WARNING" })],
      devices: [drive("d1", 16), drive("d2", 0, d2)],
    });
    create(fleet, "a", 2 * MIB);
    create(fleet, "b", MIB);
    grow(fleet, "a", 4 * MIB);
    fleet.transact((tx) => tx.hosts.put(aHost("h2")));
    expect(shown(fleet, "d1")).to.equal("a 0+3, b 3+2, a 5+2");
    fleet.transact((tx) => migrateDisk(tx, diskId("a"), hostId("h2"), 9));
    return fleet;
  }

  /** Begins the next move of disk a, up to its copy. */
  function toTry(fleet: TestFleet) {
    const step = planMove(fleet.tables, diskId("a"));
    if (step.kind !== "choose") throw new Error(step.kind);
    const target = chooseTarget(fleet.tables, step, { draw: 0, nowMs: 9, whySuspected: () => undefined, maxParts: 8 });
    if (!("spaces" in target)) throw new Error(target.why);
    fleet.transact((tx) => beginTarget(tx, step, target.spaces));
    fleet.transact((tx) => beginTry(tx, diskId("a")));
    const seen = planMove(fleet.tables, diskId("a"));
    if (seen.kind !== "copy" && seen.kind !== "mirror") throw new Error(seen.kind);
    return seen;
  }

  it("move part by part to slices of another size, and leave the other parts where they are", () => {
    const fleet = withMove();
    const { sizeBytes } = fleet.disk("a");
    const seen = toTry(fleet);
    expect(seen).to.include({ sourceOffsetBytes: 128 * KIB, targetOffsetBytes: 128 * KIB });
    expect(fleet.transact((tx) => completeCopy(tx, seen))).to.equal(true);
    expect(shown(fleet, "d1")).to.equal("dirty 0+3, b 3+2, a 5+2");
    expect(shown(fleet, "d2")).to.equal("a 0+1");
    expect(fleet.disk("a").parts.map(({ sizeBytes: bytes }) => bytes)).to.deep.equal([
      3 * MIB - 64 * KIB,
      sizeBytes - 3 * MIB + 64 * KIB,
    ]);
    expect(fleet.disk("a").sizeBytes).to.equal(sizeBytes);
  });

  it("move all their runs to one drive", () => {
    const fleet = withMove();
    const first = toTry(fleet);
    fleet.transact((tx) => completeCopy(tx, first));
    const seen = toTry(fleet);
    expect(coveredRuns([seen.target], seen.disk).runs.map(({ offsetBytes }) => offsetBytes / MIB)).to.deep.equal([
      1 / 16,
      4 + 1 / 16,
    ]);
    expect(fleet.transact((tx) => completeCopy(tx, seen))).to.equal(true);
    expect([shown(fleet, "d1"), shown(fleet, "d2")]).to.deep.equal(["dirty 0+3, b 3+2, dirty 5+2", "a 0+1, a 1+1"]);
  });

  const [equal, larger] = [16 * MIB + 64 * KIB, 18 * MIB];
  for (const [what, sizeBytes, runs, expected] of [
    ["an equal drive", equal, [], "a 0+all"],
    ["a larger drive", larger, [], "a 0+17"],
    ["an equal drive with an erase", equal, [{ first: 0, count: 1, diskId: "" }], "waits"],
  ] as const)
    it(`of 0.1.0 move to ${what} -> ${expected}`, () => {
      const parts = [{ copies: [{ deviceId: deviceId("d1"), state: "COUNTS" }] }] as const;
      const [source, target] = [drive("d1", 16), drive("d2", 0, { sizeBytes, hostId: hostId("h2") })];
      const fleet = new TestFleet({ hosts: [aHost("h1"), aHost("h2")], disks: [aDisk("a", [], { parts })] });
      fleet.transact((tx) => tx.devices.put({ ...source, runs: [{ first: 0, diskId: diskId("a") }] }));
      fleet.transact((tx) => tx.devices.put({ ...target, runs }));
      fleet.transact((tx) => migrateDisk(tx, diskId("a"), hostId("h2"), 9));
      if (expected === "waits")
        return void expect(() => toTry(fleet)).to.throw("it goes on once device d2 on host h2 is erased");
      const seen = toTry(fleet);
      expect(fleet.transact((tx) => completeCopy(tx, seen))).to.equal(true);
      const all = [shown(fleet, "d2"), shown(fleet, "d1")].map((runs) => runs.replace("undefined", "all"));
      expect(all).to.deep.equal([expected, "dirty 0+all"]);
      expect(fleet.disk("a").parts[0]?.sizeBytes).to.equal(equal);
    });

  it("that are published leave only the moved part's slices once their host uses the new layout", () => {
    const fleet = withMove();
    const published = { hostId: hostId("h1"), state: "PUBLISHED", sessionNumber: 190, exportPath: "/x" } as const;
    const publication = { ...published, attempts: 0, lastError: "" };
    fleet.transact((tx) => tx.disks.put({ ...fleet.disk("a"), publication, lastSessionNumber: 190 }));
    const confirm = () =>
      fleet.transact((tx) => completeChange(tx, diskId("a"), fleet.disk("a").publication ?? publication));
    const begun = (): Mirroring => {
      const seen = planMove(fleet.tables, diskId("a"));
      if (seen.kind !== "mirror") throw new Error(seen.kind);
      return seen;
    };
    expect(() => toTry(fleet)).to.throw("wait");
    confirm();
    expect(fleet.transact((tx) => cutOver(tx, begun()))).to.equal(true);
    expect(shown(fleet, "d1"), "the host may use it still").to.equal("a 0+3, b 3+2, a 5+2");
    confirm();
    expect(shown(fleet, "d1")).to.equal("dirty 0+3, b 3+2, a 5+2");
  });

  describe("without one run for a part that moves", () => {
    const a = diskId("a");
    /** Bytes of a part on three slices. */
    const PIECE = 3_008 * KIB;

    /** Disk a is on six slices of d1. Host h2 has two free runs of three slices each on d2, and two free slices on d3. */
    function withFragments(publication?: Disk["publication"]) {
      const elsewhere = { hostId: hostId("h2") };
      const fleet = new TestFleet({
        hosts: [aHost("h1", { slices: true }), aHost("h2", { state: "WARNING" }), aHost("h3")],
        devices: [drive("d1", 16), drive("d2", 7, elsewhere), drive("d3", 2, elsewhere)],
      });
      const disk = create(fleet, "a", 2 * PIECE);
      const used = [{ first: 3, count: 1, diskId: "" as const }];
      fleet.transact((tx) => {
        tx.hosts.put(aHost("h2"));
        tx.devices.put({ ...fleet.device("d2"), runs: used });
        tx.disks.put({ ...disk, ...(publication && { publication, lastSessionNumber: publication.sessionNumber }) });
        migrateDisk(tx, a, "", 9);
      });
      return fleet;
    }
    const publishedTo = (id: string) =>
      ({
        hostId: hostId(id),
        state: "PUBLISHED",
        sessionNumber: 190,
        exportPath: "/x",
        attempts: 0,
        lastError: "",
      }) as const;
    const layout = (fleet: TestFleet) =>
      fleet.disk("a").parts.map(({ sizeBytes = 0, copies }) => {
        const places = copies.map((c) => `${c.deviceId}/${c.first}+${(c.skipBytes ?? 0) / KIB} ${c.state}`);
        return `${sizeBytes / KIB} KiB ${places.join(", ")}`;
      });
    const choose = (fleet: TestFleet) => {
      const step = planMove(fleet.tables, a);
      if (step.kind !== "choose") throw new Error(step.kind);
      const chosen = chooseTarget(fleet.tables, step, {
        draw: 0,
        nowMs: 9,
        whySuspected: () => undefined,
        maxParts: 8,
      });
      if ("spaces" in chosen) fleet.transact((tx) => beginTarget(tx, step, chosen.spaces));
      return chosen;
    };
    const begun = (fleet: TestFleet) => {
      fleet.transact((tx) => beginTry(tx, a));
      const seen = planMove(fleet.tables, a);
      if (seen.kind !== "copy" && seen.kind !== "mirror") throw new Error(seen.kind);
      return seen;
    };

    it("splits it for several runs of one host, and frees its own run with the last of them", () => {
      const fleet = withFragments();
      choose(fleet);
      expect(layout(fleet)).to.deep.equal([
        "3008 KiB d1/0+0 COUNTS, d2/0+0 COPYING",
        "3008 KiB d1/0+3008 COUNTS, d2/4+0 COPYING",
      ]);
      expect(shown(fleet, "d2"), "both at once").to.equal("a 0+3, dirty 3+1, a 4+3");
      const first = begun(fleet);
      expect(first).to.include({ sizeBytes: PIECE, sourceOffsetBytes: 128 * KIB, targetOffsetBytes: 128 * KIB });
      expect(fleet.transact((tx) => completeCopy(tx, first))).to.equal(true);
      expect(shown(fleet, "d1"), "the other part is there").to.equal("a 0+6");
      const second = begun(fleet);
      const places = { sourceOffsetBytes: 128 * KIB + PIECE, targetOffsetBytes: 4 * MIB + 128 * KIB };
      expect(second).to.include({ sizeBytes: PIECE, ...places });
      expect(fleet.transact((tx) => completeCopy(tx, second))).to.equal(true);
      expect(shown(fleet, "d1")).to.equal("dirty 0+6");
      expect(layout(fleet)).to.deep.equal(["3008 KiB d2/0+0 COUNTS", "3008 KiB d2/4+0 COUNTS"]);
      expect(fleet.disk("a").sizeBytes).to.equal(2 * PIECE);
      expect(planMove(fleet.tables, a).kind).to.equal("none");
    });

    it("tells the holder of the new parts before the first of them moves", () => {
      const fleet = withFragments(publishedTo("h1"));
      const confirm = () => {
        const { publication } = fleet.disk("a");
        if (publication !== undefined) fleet.transact((tx) => completeChange(tx, a, publication));
      };
      const extents = () =>
        planSession(fleet.tables, a)?.extents.map(({ offsetBytes, skipBytes = 0, target }) => {
          const link = skipBytes === 0 ? "" : ` skips ${skipBytes / KIB}`;
          return `${offsetBytes / KIB}${link}${target === undefined ? "" : ` -> ${target.offsetBytes / KIB}`}`;
        });
      choose(fleet);
      expect(planMove(fleet.tables, a).kind).to.equal("wait");
      expect(extents()).to.deep.equal(["128", "3136 skips 3008"]);
      confirm();
      expect(fleet.transact((tx) => beginTry(tx, a))).to.equal(true);
      expect(extents()).to.deep.equal(["128 -> 128", "3136 skips 3008"]);
      for (const left of ["a 0+6", "dirty 0+6"]) {
        confirm();
        const seen = begun(fleet);
        expect(fleet.transact((tx) => cutOver(tx, seen as Mirroring))).to.equal(true);
        expect(shown(fleet, "d1")).to.equal("a 0+6");
        confirm();
        expect(shown(fleet, "d1")).to.equal(left);
        fleet.transact((tx) => beginTry(tx, a));
      }
      expect(planSession(fleet.tables, a)).to.equal(undefined);
    });

    it("waits while its holder's agent knows no slices, and goes on when it does", () => {
      const fleet = withFragments(publishedTo("h3"));
      expect(choose(fleet)).to.have.property("why").that.contains("no free device of 5.9 MiB");
      fleet.transact((tx) => tx.hosts.put(aHost("h3", { slices: true })));
      expect(choose(fleet)).to.have.property("spaces").with.length(2);
    });

    it("waits when only several hosts together have room", () => {
      const fleet = withFragments();
      fleet.transact((tx) => tx.devices.put({ ...fleet.device("d2"), runs: [{ first: 3, count: 4, diskId: "" }] }));
      fleet.transact((tx) => tx.devices.put(drive("d4", 3, { hostId: hostId("h3") })));
      expect(choose(fleet)).to.have.property("why");
    });

    it("grows behind the part that is left on its run when the move is cancelled", () => {
      const fleet = withFragments();
      choose(fleet);
      const seen = begun(fleet);
      fleet.transact((tx) => completeCopy(tx, seen));
      fleet.transact((tx) => cancelDiskMoves(tx, a));
      const { parts } = grow(fleet, "a", 2 * PIECE + MIB);
      expect(parts.map(({ sizeBytes }) => sizeBytes)).to.deep.equal([PIECE, PIECE + MIB]);
      expect([shown(fleet, "d1"), shown(fleet, "d2")]).to.deep.equal(["a 0+7", "a 0+3, dirty 3+1, dirty 4+3"]);
      expect(fleet.transact((tx) => deletedNow(tx, a))).to.deep.equal(["d2", "d1"]);
      expect(shown(fleet, "d1")).to.equal("dirty 0+7");
    });
  });

  const range = (first: number, count: number, sessionNumber: number, disk: string) => {
    const bytes = { offsetBytes: 64 * KIB + first * MIB, sizeBytes: count * MIB };
    return { ...bytes, sessionNumber, diskId: disk === "" ? ("" as const) : diskId(disk) };
  };
  const remembered: readonly [string, readonly ReturnType<typeof range>[], string, object | undefined, number?][] = [
    ["as published", [range(0, 2, 190, "a"), range(2, 2, 195, "b")], "a PUBLISHED 190, b PUBLISHED 195", undefined],
    ["not for a", [range(2, 2, 195, "b")], "a PUBLISHING 201, b PUBLISHED 195", undefined],
    ["for half of a", [range(0, 1, 190, "a"), range(2, 2, 195, "b")], "a PUBLISHING 201, b PUBLISHED 195", undefined],
    [
      "an older one for b",
      [range(0, 2, 190, "a"), range(2, 2, 9, "b")],
      "a PUBLISHED 190, b PUBLISHING 201",
      undefined,
    ],
    [
      "of a disk that is not there",
      [range(0, 2, 190, "a"), range(2, 2, 195, "b"), range(4, 1, 500, "c")],
      "a PUBLISHING 201, b PUBLISHING 202",
      { sessionNumber: 500, diskId: "c" },
    ],
    [
      "of an erase before",
      [range(0, 2, 190, "a"), range(2, 2, 195, "b"), range(4, 1, 180, "")],
      "a PUBLISHED 190, b PUBLISHED 195",
      undefined,
    ],
    [
      "for free slices behind b, of b",
      [range(0, 2, 190, "a"), range(2, 3, 195, "b")],
      "a PUBLISHING 201, b PUBLISHING 202",
      { sessionNumber: 195, diskId: "b" },
    ],
    [
      "for all slices of b, of a",
      [range(0, 4, 190, "a")],
      "a PUBLISHING 201, b PUBLISHING 202",
      { sessionNumber: 190, diskId: "a" },
    ],
    [
      "not for a, up to a floor that was given",
      [range(2, 2, 195, "b")],
      "a PUBLISHING 201, b PUBLISHED 195",
      undefined,
      195,
    ],
    [
      "not for a, whose bytes were erased after the backup",
      [range(2, 2, 195, "b")],
      "a PUBLISHING 201, b PUBLISHING 202",
      { sessionNumber: 500, diskId: "" },
      500,
    ],
    [
      "of all disks, and erased others after the backup",
      [range(0, 2, 190, "a"), range(2, 2, 195, "b")],
      "a PUBLISHED 190, b PUBLISHED 195",
      undefined,
      500,
    ],
  ];
  for (const [what, ranges, expected, unknownSession, floor = 0] of remembered)
    it(`an agent that remembers sessions ${what} -> ${expected}`, () => {
      const host = aHost("h1", { slices: true });
      const fleet = new TestFleet({ hosts: [host], devices: [drive("d1", 16, { lastSessionNumber: 180 })] });
      for (const [id, sessionNumber] of [
        ["a", 190],
        ["b", 195],
      ] as const) {
        const disk = create(fleet, id, MIB);
        const publication = { hostId: host.hostId, state: "PUBLISHED", sessionNumber, exportPath: "/x" } as const;
        const put = {
          ...disk,
          publication: { ...publication, attempts: 0, lastError: "" },
          lastSessionNumber: sessionNumber,
        };
        fleet.transact((tx) => tx.disks.put(put));
      }
      const { sizeBytes } = fleet.device("d1");
      const report = reported("d1", { sizeBytes, sessionNumber: 195, sessionDiskId: diskId("b"), ranges, floor });
      const exports = [
        { diskId: diskId("a"), sessionNumber: 190 },
        { diskId: diskId("b"), sessionNumber: 195 },
      ];
      fleet.transact((tx) =>
        registerAgent(tx, registration([report], { slices: true, exports }), leader, { maxHosts: 9 }, 9),
      );
      const seen = ["a", "b"].map((id) => {
        const { publication } = fleet.disk(id);
        return `${id} ${publication?.state} ${publication?.sessionNumber}`;
      });
      expect(seen.join(", ")).to.equal(expected);
      expect(fleet.device("d1").unknownSession).to.deep.equal(unknownSession);
      expect(shown(fleet, "d1")).to.equal(
        `a 0+2, b 2+2${what.includes("there") || what.includes("behind") ? ", dirty 4+1" : ""}`,
      );
      const ids = [fleet.device("d1").deviceId];
      expect(fleet.transact((tx) => decideUnknown(tx, ids, "agent")).deviceIds, "loses no disk").to.deep.equal([]);
      fleet.transact((tx) => decideUnknown(tx, ids, "registry"));
      expect(fleet.device("d1").unknownSession).to.equal(undefined);
    });

  it("are refused with the largest free run, and for the number of runs of a device", () => {
    const fragmented = { ...drive("d1", 9), runs: [{ first: 3, count: 1, diskId: diskId("x") }] };
    const two = new TestFleet({ devices: [fragmented] });
    expect(() => create(two, "a", 9 * MIB)).to.throw("7.9 MiB are free");
    expect(() => create(two, "a", 9 * MIB)).to.throw("the largest free run has room for 4.9 MiB");
    const runs = Array.from({ length: MAX_RUNS_OF_DEVICE }, (_, i) => ({
      first: 2 * i,
      count: 1,
      diskId: diskId("x"),
    }));
    const full = new TestFleet({ devices: [{ ...drive("d1", 4_000), runs }] });
    expect(() => create(full, "a", MIB)).to.throw("1 device has free slices and 1024 runs, the most of a device");
  });

  for (const spreadRacks of [false, true])
    it(`fill the hosts of a fleet evenly${spreadRacks ? ", also when they are to spread over racks" : ""}`, () => {
      const random = randomOf(5);
      const hosts = Array.from({ length: 40 }, (_, i) => aHost(`h${i}`, { rack: `r${i % 4}` }));
      const devices = hosts.flatMap(({ hostId: id }) =>
        [1, 2].map((n) => drive(`${id}-${n}`, 100, { hostId: id, path: `/dev/${id}-${n}` })),
      );
      const fleet = new TestFleet({ hosts, devices });
      for (let i = 0; i < 400; i++)
        fleet.transact((tx) =>
          createDisk(tx, diskId(`x${i}`), { ...request, sizeBytes: 9 * MIB, spreadRacks }, { labels: [] }, limits, {
            draw: random(),
            nowMs: 1,
          }),
        );
      const counts = hosts.map(({ hostId: id }) =>
        [1, 2].reduce((sum, n) => sum + fleet.device(`${id}-${n}`).runs.length, 0),
      );
      expect(Math.min(...counts)).to.be.at.least(7);
      expect(Math.max(...counts)).to.be.at.most(13);
    });

  it("keep their slices when their drive may be another one, and the free slices are erased again", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16)] });
    for (const id of ["a", "b", "c"]) create(fleet, id, MIB);
    fleet.transact((tx) => deletedNow(tx, diskId("b")));
    const order = fleet.transact((tx) => beginErase(tx, fleet.device("d1").deviceId));
    const after = distrusted(fleet.device("d1"));
    fleet.transact((tx) => tx.devices.put(after));
    expect(shown(fleet, "d1")).to.equal("a 0+2, dirty 2+2, c 4+2, dirty 6+10");
    const { deviceId: id } = after;
    expect(
      fleet.transact((tx) => completeErase(tx, id, order?.sessionNumber ?? 0)),
      "a late answer",
    ).to.equal(false);
    expect(distrusted(after), "nothing more to distrust").to.equal(after);
  });

  it("are named by ranges in sessions, extents and erases, disks on whole devices by these", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16), aDevice("d2", { diskId: diskId("b") })] });
    const a = create(fleet, "a", 2 * MIB);
    const first = { offsetBytes: 64 * KIB, sizeBytes: 3 * MIB };
    const devices = [fleet.device("d1"), fleet.device("d2")];
    expect(coveredRuns(devices, fleet.disk("a"))).to.deep.equal({
      deviceIds: [],
      runs: [{ deviceId: "d1", ...first }],
    });
    expect(coveredRuns(devices, { diskId: diskId("b"), parts: [] })).to.deep.equal({ deviceIds: ["d2"], runs: [] });
    fleet.transact((tx) => requestPublish(tx, diskId("a"), hostId("h1")));
    const extent = { deviceId: "d1", hostId: "h1", offsetBytes: 128 * KIB, sizeBytes: 2 * MIB };
    expect(planSession(fleet.tables, diskId("a"))?.extents).to.deep.equal([extent]);
    fleet.transact((tx) => tx.disks.put(a));
    fleet.transact((tx) => deletedNow(tx, diskId("a")));
    expect(fleet.transact((tx) => beginErase(tx, fleet.device("d1").deviceId))?.range).to.deep.equal(first);
  });

  it("a served disk grows -> a longer run keeps its session, and a new run of the same drive gets one of its own", () => {
    const fleet = new TestFleet({ devices: [drive("d1", 16)] });
    const a = create(fleet, "a", MIB);
    const publication = { hostId: hostId("h1"), state: "PUBLISHED", sessionNumber: 190, exportPath: "/x" } as const;
    const served = { ...a, publication: { ...publication, attempts: 0, lastError: "" }, lastSessionNumber: 190 };
    fleet.transact((tx) => tx.disks.put(served));
    grow(fleet, "a", 3 * MIB);
    create(fleet, "b", MIB);
    grow(fleet, "a", 7 * MIB);
    expect(shown(fleet, "d1")).to.equal("a 0+4, b 4+2, a 6+4");
    const plan = planSession(fleet.tables, diskId("a"));
    const groups = plan && groupsOfOwnSessions(plan);
    const asked = groups?.map(({ devices, sessionNumber }) => [
      sessionNumber,
      coveredRuns(devices, fleet.disk("a"), { ownSession: sessionNumber }).runs.map(({ offsetBytes, sizeBytes }) => [
        (offsetBytes - 64 * KIB) / MIB,
        sizeBytes / MIB,
      ]),
    ]);
    expect(asked).to.deep.equal([
      [190, [[0, 4]]],
      [201, [[6, 4]]],
    ]);
    expect(plan?.extents.map(({ sessionNumber }) => sessionNumber)).to.deep.equal([190, 201]);
  });

  it("an agent that has lost its cache gets the highest number ever given, and the sessions of all runs", () => {
    const host = aHost("h1", { slices: true });
    const fleet = new TestFleet({ hosts: [host], devices: [drive("d1", 16, { lastSessionNumber: 180 })] });
    for (const [id, lastSessionNumber] of [
      ["a", 190],
      ["b", 170],
    ] as const) {
      const disk = create(fleet, id, MIB);
      fleet.transact((tx) => tx.disks.put({ ...disk, lastSessionNumber }));
    }
    const { sizeBytes } = fleet.device("d1");
    const answer = (sessionNumber: number, slices: boolean) =>
      fleet.transact((tx) =>
        registerAgent(
          tx,
          registration([reported("d1", { sizeBytes, sessionNumber })], { slices }),
          leader,
          { maxHosts: 9 },
          9,
        ),
      ).allowed[0]?.lost;
    const run = (first: number, sessionNumber: number, disk: string) => ({
      offsetBytes: 64 * KIB + first * MIB,
      sizeBytes: 2 * MIB,
      sessionNumber,
      diskId: disk,
      holderHostId: "",
    });
    expect(answer(0, true)).to.deep.equal({ floor: 190, sessions: [run(0, 190, "a"), run(2, 170, "b")] });
    expect(answer(190, true)).to.equal(undefined);
  });

  const chosen = (allocation: Allocation): string =>
    "shortage" in allocation
      ? `none, ${allocation.shortage.usableBytes / KIB} KiB are free`
      : allocation.spaces.map(({ deviceId, slices }) => `${deviceId} ${slices?.first}+${slices?.count}`).join(", ");
  const x = (first: number, count: number) => ({ first, count, diskId: diskId("x") });
  const rows: readonly [string, readonly Device[], number, string][] = [
    ["one range where it fits", [{ ...drive("d1", 9), runs: [x(3, 1)] }], 4 * MIB, "d1 4+5"],
    ["the smallest range that fits", [{ ...drive("d1", 9), runs: [x(3, 1)] }], 2 * MIB, "d1 0+3"],
    ["few ranges, all of the largest", [{ ...drive("d1", 9), runs: [x(3, 1)] }], 6 * MIB, "d1 4+5, d1 0+2"],
    ["one drive rather than two", [drive("d1", 3), drive("d2", 8)], 4 * MIB, "d2 0+5"],
    ["slices rather than a whole drive that is larger", [drive("d1", 8), aDevice("d2")], MIB, "d1 0+2"],
    ["what is free in all ranges", [{ ...drive("d1", 5), runs: [x(2, 1)] }], 5 * MIB, "none, 3968 KiB are free"],
  ];
  for (const [what, devices, sizeBytes, expected] of rows)
    it(`${what} -> ${expected}`, () => {
      const fleet = new TestFleet({ devices });
      expect(chosen(allocate(fleet.tables, { ...request, sizeBytes }, { maxDevices: 4, draw: 0 }))).to.equal(expected);
    });

  it("never share a slice, and each byte of a disk lies on a run of its own, whatever happens", () => {
    const random = randomOf(11);
    const below = (limit: number): number => Math.floor(random() * limit);
    let refused = 0;
    for (let n = 0; n < 40; n++) {
      const hosts = [aHost("h1"), aHost("h2", { rack: "r2" })];
      const devices = Array.from({ length: 1 + below(4) }, (_, i) =>
        drive(`d${i}`, 4 + below(40), { hostId: hostId(`h${1 + (i % 2)}`) }),
      );
      const fleet = new TestFleet({ hosts, devices });
      for (let step = 0; step < 80; step++) {
        const id = `x${below(12)}`;
        const size = 1 + below(8 * MIB);
        try {
          if (fleet.tables.disks.get(id) === undefined) create(fleet, id, size);
          else if (below(3) === 0) fleet.transact((tx) => deletedNow(tx, diskId(id)));
          else grow(fleet, id, Math.max(fleet.disk(id).sizeBytes, fleet.disk(id).requested.sizeBytes) + size);
        } catch (error) {
          expect(`${error}`).to.contain("does not fit");
          refused++;
        }
        if (below(2) === 0) erase(fleet, `d${below(devices.length)}`);
        check(fleet);
      }
    }
    expect(refused).to.be.above(100);
  });
});

function check(fleet: TestFleet): void {
  for (const device of fleet.tables.devices.entries()) {
    let end = 0;
    for (const { first, count = 0 } of device.runs) {
      expect(first).to.be.at.least(end);
      expect(count).to.be.above(0);
      end = first + count;
    }
    expect(end).to.be.at.most(sliceCount(device));
  }
  let runs = 0;
  for (const disk of fleet.tables.disks.entries()) {
    const sizes = disk.parts.map(({ sizeBytes, copies: [copy] }) => {
      const run = runAt(fleet.device(copy?.deviceId ?? ""), disk.diskId, copy?.first ?? -1);
      expect(sizeBytes).to.be.within(1, partBytesIn(MIB, run?.count ?? 0));
      return sizeBytes ?? 0;
    });
    runs += sizes.length;
    expect(disk.sizeBytes).to.equal(sizes.reduce((sum, size) => sum + size, 0));
  }
  const used = [...fleet.tables.devices.entries()].flatMap((device) =>
    device.runs.filter(({ diskId: of }) => of !== ""),
  );
  expect(used).to.have.length(runs);
}
