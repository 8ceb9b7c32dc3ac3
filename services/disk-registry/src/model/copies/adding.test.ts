import { expect } from "chai";
import { aCopiedDisk, aPublication, partsOf } from "../../testing/copied-disks.js";
import { deviceId } from "../../testing/fleet-fixture.js";
import {
  addCopy,
  freeable,
  leaveCopy,
  leaveSurplus,
  noteEqual,
  noteFreed,
  noteTargetGrant,
  retryTarget,
} from "./adding.js";
import type { CopiedDisk } from "./copied-disk.js";
import { orderOf } from "./order.js";

const b = deviceId("b");
const published = (part: string, fields: Parameters<typeof aPublication>[0] = {}): CopiedDisk =>
  aCopiedDisk([part], { publication: aPublication(fields) });
const said = { part: 0, deviceId: b, session: 9, revision: 3 };

describe("copies that are filled", () => {
  it("a copy has a later session than its publication, and the holder is told of it once it is granted", () => {
    const added = addCopy(published("5: a COUNTS"), 0, b, 12);
    expect(added.lastSession).to.equal(12);
    expect(orderOf(added)?.parts[0]?.copying).to.deep.equal([]);
    expect(noteTargetGrant(added, 0, b, { session: 9, layout: 20 })).to.equal(added);
    const open = noteTargetGrant(retryTarget(added, 0, b, 15), 0, b, { session: 15, layout: 20 });
    expect(partsOf(open)).to.deep.equal(["20: a COUNTS, b COPYING open"]);
    expect(open.publication?.revision).to.equal(4);
    expect(orderOf(open)?.parts[0]).to.deep.include({ copying: ["b"], sessions: new Map([[b, 15]]) });
  });

  it("a dropped copy begins anew, and one that counts does not", () => {
    expect(partsOf(addCopy(published("5: a COUNTS, b DROPPED"), 0, b, 12))).to.deep.equal(["5: a COUNTS, b COPYING"]);
    const disk = published("5: a COUNTS, b COUNTS");
    expect(addCopy(disk, 0, b, 12)).to.equal(disk);
  });

  const equal: readonly [string, CopiedDisk, string | undefined][] = [
    ["the copy is filled", published("5: a COUNTS, b COPYING open"), "20: a COUNTS, b COUNTS"],
    ["the copy is resynced", published("5: a COUNTS, b RESYNC open"), "20: a COUNTS, b COUNTS"],
    ["it was not granted", published("5: a COUNTS, b COPYING"), undefined],
    ["it has left", published("5: a COUNTS, b LEAVING"), undefined],
    ["it was dropped", published("5: a COUNTS, b DROPPED"), undefined],
    ["the revision is another one", published("5: a COUNTS, b COPYING open", { revision: 4 }), undefined],
    ["the disk is fenced", published("5: a COUNTS, b COPYING open", { state: "FENCING" }), undefined],
  ];
  for (const [cause, disk, result] of equal)
    it(`EQUAL, and ${cause} -> ${result ?? "nothing"}`, () => {
      const after = noteEqual(disk, said, 20);
      expect(after && partsOf(after)[0]).to.equal(result);
    });
});

describe("copies that leave", () => {
  const three = "5: a COUNTS, b COUNTS, c COUNTS";
  const leaving: readonly [string, CopiedDisk, string | undefined][] = [
    ["more count than wished", published(three), "20: a COUNTS, b LEAVING, c COUNTS"],
    ["as many count as wished", published("5: a COUNTS, b COUNTS"), undefined],
    ["the holder does not follow yet", published(three, { confirmedRevision: 2 }), undefined],
    ["the disk is not published", aCopiedDisk([three]), undefined],
  ];
  for (const [cause, disk, result] of leaving)
    it(`${cause} -> ${result ?? "none"}`, () => {
      const after = leaveCopy(disk, 0, b, 20);
      expect(after && partsOf(after)[0]).to.equal(result);
    });

  it("are freed once the holder follows the revision without them", () => {
    const disk = published("5: a COUNTS, b LEAVING", { confirmedRevision: 2 });
    expect(freeable(disk, 0)).to.deep.equal([]);
    expect(freeable(published("5: a COUNTS, b LEAVING"), 0)).to.deep.equal(["b"]);
    expect(freeable(published("5: a COUNTS, b LEAVING", { state: "FENCING" }), 0)).to.deep.equal([]);
    expect(freeable(aCopiedDisk(["5: a COUNTS, b LEAVING"]), 0)).to.deep.equal(["b"]);
    expect(partsOf(noteFreed(disk, 0, b))).to.deep.equal(["5: a COUNTS"]);
  });

  const surplus: readonly [string, string, boolean, string][] = [
    [
      "enough count",
      "5: a COUNTS, c COUNTS, b DROPPED, d COPYING open",
      true,
      "5: a COUNTS, c COUNTS, b LEAVING, d LEAVING",
    ],
    ["one is missing", "5: a COUNTS, b DROPPED, d COPYING open", true, "5: a COUNTS, b DROPPED, d COPYING open"],
    ["one is missing, its host is not fit", "5: a COUNTS, d COPYING", false, "5: a COUNTS, d LEAVING"],
  ];
  for (const [cause, part, isFit, result] of surplus)
    it(`remembered and filled copies, ${cause} -> ${result}`, () => {
      expect(partsOf(leaveSurplus(published(part), 0, () => isFit))).to.deep.equal([result]);
    });
});
