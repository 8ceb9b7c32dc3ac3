import { expect } from "chai";
import { aDevice, aDisk, aHost, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { withCopies } from "../store/layout.js";
import type { Publication } from "../store/schema.js";
import { completeChange, groupsOfOwnSessions, setDiskLimits, withAddedBytes } from "./export-changes.js";
import { renewSession } from "./publications.js";
import { planSession } from "./session-plan.js";

const limits = { readIops: 100, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };
const x = diskId("x");

const publication = (state: Publication["state"]): Publication => ({
  hostId: hostId("h1"),
  state,
  sessionNumber: 5,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
});

describe("changes of an export", () => {
  const rows: readonly [Publication["state"] | undefined, number | undefined][] = [
    [undefined, undefined],
    ["PUBLISHING", 1],
    ["PUBLISHED", 1],
    ["UNPUBLISHING", undefined],
  ];
  for (const [state, revision] of rows)
    it(`new limits of a disk that is ${state ?? "not published"} -> revision ${revision ?? "unchanged"}`, () => {
      const fleet = new TestFleet({ disks: [aDisk("x", ["d1"], { publication: state && publication(state) })] });
      const disk = fleet.transact((tx) => setDiskLimits(tx, x, limits));
      expect(disk).to.deep.equal(fleet.disk("x"));
      expect(disk.limits).to.deep.equal(limits);
      expect(disk.publication?.revision).to.equal(revision);
      expect(disk.publication?.sessionNumber).to.equal(state && 5);
    });

  const grown: readonly [Publication["state"] | undefined, Partial<Publication> | undefined][] = [
    [undefined, undefined],
    ["PUBLISHED", { sessionNumber: 5, revision: 1 }],
    ["PUBLISHING", { sessionNumber: 201 }],
    ["UNPUBLISHING", { sessionNumber: 5 }],
  ];
  for (const [state, expected] of grown)
    it(`a device added to a disk that is ${state ?? "not published"} -> ${JSON.stringify(expected)}`, () => {
      const fields = { publication: state && publication(state), lastSessionNumber: 5 };
      const [before, disk] = [aDisk("x", ["d1"], fields), aDisk("x", ["d1", "d2"], fields)];
      const fleet = new TestFleet({ disks: [before] });
      const larger = fleet.transact((tx) => withAddedBytes(tx, before, disk, disk.parts.slice(1)));
      const { publication: after, lastSessionNumber } = larger;
      expect(after?.state).to.equal(state);
      if (expected) expect(after).to.deep.include(expected);
      const own = state === "PUBLISHED" ? 201 : undefined;
      expect(larger.parts.map(({ copies }) => copies[0]?.sessionNumber)).to.deep.equal([undefined, own]);
      expect(lastSessionNumber).to.equal(state === "PUBLISHED" || state === "PUBLISHING" ? 201 : 5);
    });

  it("devices added one after another are asked in groups by host and session; the host stays in its session", () => {
    const added = [
      ["d2", 201],
      ["d3", 202],
      ["d4", 202],
      ["d5", 202],
    ] as const;
    const ids = ["d1", ...added.map(([id]) => id)];
    const changing: Publication = {
      ...publication("PUBLISHED"),
      revision: 2,
      confirmedRevision: 1,
    };
    const sessions = new Map<string, number>(added);
    const disk = withCopies(aDisk("x", ids, { publication: changing }), (copy) => ({
      ...copy,
      sessionNumber: sessions.get(copy.deviceId),
    }));
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: ids.map((id) => aDevice(id, { diskId: x, hostId: hostId(id === "d5" ? "h2" : "h1") })),
      disks: [disk],
    });
    const plan = planSession(fleet.tables, x);
    const groups =
      plan &&
      groupsOfOwnSessions(plan).map(
        ({ host, devices, sessionNumber }) =>
          `${host.hostId} ${sessionNumber}: ${devices.map((device) => device.deviceId)}`,
      );
    expect(groups).to.deep.equal(["h1 201: d2", "h1 202: d3,d4", "h2 202: d5"]);
    fleet.transact((tx) => completeChange(tx, x, changing));
    expect(planSession(fleet.tables, x)).to.equal(undefined);
    expect(fleet.disk("x").publication).to.include({ sessionNumber: 5, confirmedRevision: 2 });
  });

  it("a device has seen a later session -> the disk is published again, in a new session", () => {
    const changing: Publication = {
      ...publication("PUBLISHED"),
      revision: 1,
    };
    const disk = withCopies(aDisk("x", ["d1", "d2"], { publication: changing }), (copy) => ({
      ...copy,
      sessionNumber: 6,
    }));
    const fleet = new TestFleet({ disks: [disk] });
    fleet.transact((tx) => renewSession(tx, x, changing));
    const { publication: again, parts } = fleet.disk("x");
    expect(again).to.include({ state: "PUBLISHING", sessionNumber: 201 });
    expect(again).not.to.have.property("revision");
    expect(parts).to.deep.equal(aDisk("x", ["d1", "d2"]).parts);
  });

  it("the same limits, or none again -> nothing is stored", () => {
    const fleet = new TestFleet({
      disks: [aDisk("x", ["d1"], { limits }), aDisk("y", ["d2"], { publication: publication("PUBLISHED") })],
    });
    expect(fleet.changes((tx) => setDiskLimits(tx, x, { ...limits }))).to.equal(0);
    expect(fleet.changes((tx) => setDiskLimits(tx, diskId("y"), undefined))).to.equal(0);
  });

  it("no limits -> the limits are gone", () => {
    const fleet = new TestFleet({ disks: [aDisk("x", ["d1"], { limits })] });
    expect(fleet.transact((tx) => setDiskLimits(tx, x, undefined))).not.to.have.property("limits");
  });
});
