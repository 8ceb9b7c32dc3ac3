import { expect } from "chai";
import { aDisk, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import type { Publication } from "../store/schema.js";
import { setDiskLimits } from "./export-changes.js";

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
