import { expect } from "chai";
import { aCopiedDisk, aPublication, partsOf } from "../../testing/copied-disks.js";
import { deviceId, diskId } from "../../testing/fleet-fixture.js";
import { orderOf } from "./order.js";
import { beginFence } from "./publications.js";
import { beginSnapshot, endSnapshot, noteSnapshotGrant, takeCut } from "./snapshots.js";

const [s, t] = [deviceId("s"), deviceId("t")];
const source = aCopiedDisk(["5: a COUNTS, b COUNTS", "6: c COUNTS, d COUNTS"], { publication: aPublication() });
const job = { jobId: "j", diskId: diskId("y"), targets: [s, t] };
const begun = beginSnapshot(source, job, 12) ?? source;
const granted = noteSnapshotGrant(noteSnapshotGrant(begun, s, 12), t, 12);

describe("snapshots", () => {
  it("the holder is told of the targets once all have granted", () => {
    expect(orderOf(noteSnapshotGrant(begun, s, 12))?.snapshot).to.equal(undefined);
    expect(orderOf(granted)).to.deep.include({ revision: 4 });
    expect(orderOf(granted)?.snapshot).to.deep.include({ ...job, targetSession: 12 });
    expect(noteSnapshotGrant(granted, t, 12)).to.equal(granted);
  });

  it("the holder's cut makes the disk, once", () => {
    const cut = takeCut(granted, { jobId: "j", session: 9 });
    expect(cut && partsOf(cut.snapshot)).to.deep.equal(["12: s COUNTS", "12: t COUNTS"]);
    expect(cut?.snapshot).to.deep.include({ diskId: "y", copiesWished: 2, lastSession: 12 });
    expect(cut?.disk.snapshot).to.equal(undefined);
    expect(cut && takeCut(cut.disk, { jobId: "j", session: 9 })).to.equal(undefined);
  });

  for (const [cause, disk, said] of [
    ["of another session", granted, { jobId: "j", session: 8 }],
    ["of another job", granted, { jobId: "k", session: 9 }],
    ["of a holder that was fenced", beginFence(granted, 20), { jobId: "j", session: 9 }],
  ] as const)
    it(`a cut ${cause} makes no disk`, () => {
      expect(takeCut(disk, said)).to.equal(undefined);
    });

  it("a disk has one snapshot at a time, and none without a holder", () => {
    expect(beginSnapshot(begun, { ...job, jobId: "k" }, 13)).to.equal(undefined);
    expect(beginSnapshot(aCopiedDisk(["5: a COUNTS"]), { ...job, targets: [s] }, 13)).to.equal(undefined);
    expect(endSnapshot(begun, { jobId: "j", session: 9 }).snapshot).to.equal(undefined);
    expect(endSnapshot(begun, { jobId: "j", session: 8 })).to.equal(begun);
  });
});
