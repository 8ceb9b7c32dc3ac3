import { expect } from "chai";
import { aDevice, aDisk, type DeviceFields, deviceId, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { disksOnItText } from "../devices/action-result.js";
import { skipValues } from "../devices/counters.js";
import { beginErase } from "../devices/erase.js";
import { whyElsewhere } from "../devices/unknown-disks.js";
import { requestPublish } from "../disks/publications.js";
import { planSession } from "../disks/session-plan.js";
import type { Part } from "../store/disk-parts.js";
import { allDevices } from "../store/layout.js";
import type { Device, Disk, Publication } from "../store/schema.js";
import { decideUnknown } from "./decide-unknown.js";

const X = diskId("x");

it("a decision for the registry names all disks of the device", () => {
  const runs = [X, diskId("y")].map((id, index) => ({ first: 2 * index, count: 2, diskId: id }));
  const unknownSession = { sessionNumber: 500, diskId: "" } as const;
  const device = { ...aDevice("b", { sliceBytes: 1_048_576, unknownSession }), runs };
  const fleet = new TestFleet({ devices: [device], session: 60 });
  expect(disksOnItText(device)).to.equal("disks x, y are on it");
  const decided = fleet.transact((tx) => decideUnknown(tx, [deviceId("b")], "registry"));
  expect(decided).to.deep.include({ deviceIds: ["b"], diskIds: ["x", "y"] });
});

describe("a disk that moved after the backup", () => {
  const [b, y] = [deviceId("b"), diskId("y")];
  const erased = { sessionNumber: 501, diskId: "" } as const;
  const moved = { sessionNumber: 500, diskId: X };

  it("is on the device of its agent after a decision for the agent, and its former device stays marked", () => {
    const fleet = restored();
    expect(whyElsewhere(fleet.tables, X)).to.contain("AGENT makes the device the disk's");
    expect(decide(fleet)).to.deep.equal({ deviceIds: ["b"], diskIds: ["x"], endedDiskIds: [] });
    expect(allDevices(fleet.disk("x"))).to.deep.equal(["b"]);
    expect(fleet.seen("b")).to.include({
      diskId: X,
      dirty: false,
      lastSessionNumber: 500,
    });
    expect(fleet.device("b").unknownSession).to.equal(undefined);
    expect(fleet.seen("a")).to.include({ diskId: "", dirty: true });
    expect(fleet.device("a").unknownSession).to.deep.equal(erased);
    expect(fleet.transact((tx) => beginErase(tx, deviceId("a")))).to.equal(undefined);
    expect(decide(fleet).deviceIds, "again").to.deep.equal([]);
    fleet.transact((tx) => requestPublish(tx, X, hostId("h1")));
    expect(planSession(fleet.tables, X)?.blocked).to.equal(undefined);
  });

  it("is on it also when its former device was decided first, and when the publication or its end is under way", () => {
    const early = restored();
    early.transact((tx) => decideUnknown(tx, [deviceId("a"), b], "agent"));
    expect(allDevices(early.disk("x"))).to.deep.equal(["b"]);
    for (const state of ["PUBLISHING", "UNPUBLISHING"] as const) {
      const fleet = restored({ disk: { publication: publication(state), lastSessionNumber: 40 } });
      decide(fleet);
      expect(fleet.disk("x").publication).to.include({ state });
      expect(fleet.disk("x").publication?.sessionNumber, "a new session").to.be.above(1_000);
      const plan = planSession(fleet.tables, X);
      expect([plan?.blocked, plan?.groups[0]?.devices.map(({ deviceId }) => deviceId)]).to.deep.equal([
        undefined,
        ["b"],
      ]);
    }
  });

  const copying: Part = {
    copies: [
      { deviceId: deviceId("a"), state: "COUNTS" },
      { deviceId: deviceId("c"), state: "COPYING" },
    ],
  };
  const rows: readonly [string, RegExp, Parameters<typeof restored>[0]][] = [
    [
      "its former device may have its bytes: a copy may have begun, no more",
      /nothing says that it has left a/,
      { a: undefined },
    ],
    [
      "its former device has it in a later session",
      /nothing says that it has left a/,
      { a: { sessionNumber: 600, diskId: X } },
    ],
    ["two agents remember it", /on b and c/, { c: { diskId: "", unknownSession: moved } }],
    ["it is published", /published to host h1/, { disk: { publication: publication("PUBLISHED") } }],
    ["the device is not in operation", /b is CLOSING/, { b: { attachState: "CLOSING" } }],
    ["the device has slices", /on which slices of b/, { b: { sliceBytes: 1_048_576 } }],
    ["the device is too small", /too small/, { b: { sizeBytes: 1 } }],
    [
      "it moved at the time of the backup",
      /at the time of the backup/,
      { c: { diskId: X }, disk: { parts: [copying] } },
    ],
    [
      "two of its devices were given away",
      /it has left a and c/,
      { c: { diskId: X, unknownSession: { ...moved, diskId: y } }, disk: aDisk("x", ["a", "c"]) },
    ],
  ];
  for (const [why, text, world] of rows)
    it(`stays as it is when ${why}`, () => {
      const fleet = restored(world);
      const before = fleet.disk("x");
      expect(whyElsewhere(fleet.tables, X)).to.match(text).and.to.contain("AGENT changes nothing");
      expect(decide(fleet).deviceIds).to.deep.equal([]);
      expect(fleet.disk("x")).to.deep.equal(before);
    });

  function decide(fleet: TestFleet) {
    return fleet.transact((tx) => decideUnknown(tx, [b], "agent"));
  }

  /** Returns a fleet in which the registry knows disk x on a, and b's agent remembers it. */
  function restored(
    world: {
      readonly a?: Device["unknownSession"];
      readonly b?: DeviceFields;
      readonly c?: DeviceFields;
      readonly disk?: Partial<Disk>;
    } = { a: erased },
  ): TestFleet {
    const a = "a" in world ? world.a : erased;
    const devices = [
      aDevice("a", { diskId: X, lastSessionNumber: 40, ...(a && { unknownSession: a }) }),
      aDevice("b", { dirty: true, lastSessionNumber: 40, unknownSession: moved, ...world.b }),
      aDevice("c", world.c),
    ];
    const fleet = new TestFleet({ devices, disks: [aDisk("x", ["a"], world.disk)], session: 60 });
    fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 1_000 }));
    return fleet;
  }

  function publication(state: Publication["state"]): Publication {
    return { hostId: hostId("h1"), state, sessionNumber: 40, exportPath: "", attempts: 0, lastError: "" };
  }
});
