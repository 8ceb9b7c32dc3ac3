import { expect } from "chai";
import { aCopiedDisk, aPublication, partsOf } from "../../testing/copied-disks.js";
import { deviceId, diskId } from "../../testing/fleet-fixture.js";
import type { CopiedDisk } from "./copied-disk.js";
import { isDeletable, removeDevice } from "./removing.js";

describe("a device that has failed for good", () => {
  const at = { layout: 20 };
  const cases: readonly [string, string, Partial<CopiedDisk>, string][] = [
    ["another copy counts", "5: a COUNTS, b COUNTS", {}, "20: a COUNTS"],
    ["it is the last copy that counts", "5: b COUNTS, a DROPPED", {}, "LAST_COPY"],
    ["it was dropped", "5: a COUNTS, b DROPPED", {}, "5: a COUNTS"],
    ["it is filled", "5: a COUNTS, b COPYING open", {}, "5: a COUNTS"],
    ["it leaves", "5: a COUNTS, b LEAVING", {}, "5: a COUNTS"],
    ["it has none of the disk", "5: a COUNTS, c COUNTS", {}, "5: a COUNTS, c COUNTS"],
    ["the store may be old", "5: a COUNTS, b COUNTS", { isUnproven: true }, "UNPROVEN"],
  ];
  for (const [cause, part, fields, result] of cases)
    it(`${cause} -> ${result}`, () => {
      const answer = removeDevice(aCopiedDisk([part], fields), deviceId("b"), at);
      expect(answer.is === "refused" ? answer.why : partsOf(answer.disk)[0]).to.equal(result);
    });

  it("a person accepts that an old store loses what the device alone has, once all others were heard", () => {
    const disk = aCopiedDisk(["5: a COUNTS, b COUNTS"], { isUnproven: true });
    const early = removeDevice(disk, deviceId("b"), { ...at, awaited: [deviceId("a")] });
    expect(early).to.include({ is: "refused", why: "UNPROVEN" });
    const answer = removeDevice(disk, deviceId("b"), { ...at, awaited: [] });
    expect(answer.is === "removed" && partsOf(answer.disk)).to.deep.equal(["20: a COUNTS"]);
  });

  it("tells the holder, ends a snapshot to the device, and forgets its move", () => {
    const job = { jobId: "j", diskId: diskId("y"), session: 9, targetSession: 12, granted: [] };
    const disk = aCopiedDisk(["5: a COUNTS, c COUNTS"], {
      publication: aPublication(),
      snapshot: { ...job, targets: [deviceId("b")] },
    });
    const ended = removeDevice(disk, deviceId("b"), at);
    expect(ended.is === "removed" && ended.disk.snapshot).to.equal(undefined);
    expect(ended.is === "removed" && ended.disk.publication?.revision).to.equal(4);

    const parts = disk.parts.map((part) => ({ ...part, moveFrom: deviceId("c") }));
    const stayed = removeDevice({ ...disk, parts }, deviceId("c"), at);
    expect(stayed.is === "removed" && stayed.disk.parts[0]?.moveFrom).to.equal(undefined);
  });
});

describe("a disk of several copies that is deleted", () => {
  const cases: readonly [CopiedDisk["publication"], boolean][] = [
    [undefined, true],
    [aPublication(), false],
    [aPublication({ state: "ENDING" }), false],
    [aPublication({ state: "FENCING" }), true],
    [aPublication({ isRepair: true }), true],
  ];
  for (const [publication, result] of cases)
    it(`${publication?.state ?? "unpublished"}${publication?.isRepair ? " for a repair" : ""} -> ${result}`, () => {
      expect(isDeletable(aCopiedDisk(["5: a COUNTS"], { publication }))).to.equal(result);
    });
});
