import type { CopyRecord, DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import { aCopiedDisk, partsOf } from "../../testing/copied-disks.js";
import { deviceId, diskId, hostId } from "../../testing/fleet-fixture.js";
import { asUnproven, isIssuedBefore, prove } from "./records.js";

/** Returns what a device says: `a 7 a+b (c) [d]` has a record of layout 7 with a and b counting, c remembered and d being filled. */
function heardOf(text: string): [DeviceId, CopyRecord | undefined] {
  const [name = "", layout, counting = "", ...more] = text.split(" ");
  const id = deviceId(name);
  if (layout === undefined) return [id, undefined];
  const ids = (names: string) => (names === "" ? [] : names.split("+").map(deviceId));
  const inside = (bracket: string) => ids(more.find((word) => word.startsWith(bracket))?.slice(1, -1) ?? "");
  const own = more.includes("copying") ? "COPYING" : more.includes("freed") ? "FREED" : "COUNTS";
  const disk = diskId(more.includes("other") ? "y" : "x");
  const named = { counting: ids(counting), remembered: inside("("), copying: inside("[") };
  return [id, { diskId: disk, part: 0, layout: Number(layout), session: 30, ...named, own }];
}

describe("proof of an old store", () => {
  const cases: readonly [string, string, string, string][] = [
    ["all records agree", "5: a COUNTS, b COUNTS", "a 5 a+b, b 5 a+b", "5: a COUNTS, b COUNTS"],
    ["b was dropped later", "5: a COUNTS, b COUNTS", "a 7 a (b), b 5 a+b", "7: a COUNTS, b DROPPED"],
    ["b was dropped later, a is unheard", "5: a COUNTS, b COUNTS", "b 5 a+b", "waits for a"],
    ["b was dropped later and is unheard", "5: a COUNTS, b COUNTS", "a 7 a (b)", "waits for b"],
    ["the disk moved on to c", "5: a COUNTS", "a, c 9 c", "9: c COUNTS"],
    ["the disk moved on, c is unheard", "5: a COUNTS", "a", "waits for a"],
    ["a names c, which is unheard", "5: a COUNTS", "a 8 a+c", "waits for c"],
    ["a has another disk's bytes", "5: a COUNTS, b COUNTS", "a 9 a other, b 5 a+b", "waits for a"],
    ["a was freed", "5: a COUNTS", "a 5 a freed", "waits for a"],
    ["the record is older than the store", "8: a COUNTS, b DROPPED", "a 5 a+b, b 5 a+b", "8: a COUNTS, b DROPPED"],
    ["b was being filled", "5: a COUNTS, b DROPPED", "a 5 a (b), b 5 a (b) copying", "5: a COUNTS, b LEAVING"],
    ["b is being filled by a later record", "5: a COUNTS", "a 7 a [b], b 7 a [b] copying", "7: a COUNTS, b LEAVING"],
    ["b may count since, and is unheard", "5: a COUNTS", "a 7 a [b]", "waits for b"],
    ["b counts since, a failed at once", "5: a COUNTS", "a 7 a [b], b 9 b (a)", "9: b COUNTS, a DROPPED"],
    ["b has another disk's bytes", "5: a COUNTS, b COPYING", "a 5 a, b 9 b other", "5: a COUNTS"],
  ];
  for (const [cause, part, heard, result] of cases)
    it(`${cause} -> ${result}`, () => {
      const disk = asUnproven(aCopiedDisk([part]), hostId("h1"), 100);
      expect(disk.publication).to.include({ state: "FENCING", session: 100 });
      const proof = prove(disk, new Map(heard.split(", ").map(heardOf)));
      if (proof.is === "waits") expect(`waits for ${proof.for}`).to.equal(result);
      else {
        expect(partsOf(proof.disk)[0]).to.equal(result);
        expect(proof.disk).to.deep.include({ isUnproven: undefined, isUnclean: true });
      }
    });

  it("a person is not offered a remembered copy whose device was heard and has other bytes by now", () => {
    const store = "5: a COUNTS, b RESYNC";
    for (const [heard, left, isMixed] of [
      ["b 3 a+b", "b RESYNC", undefined],
      ["c", "b RESYNC", undefined],
      ["b", "b LEAVING", undefined],
      ["b 9 b other", "b LEAVING", undefined],
      ["b 3 a+b freed", "b LEAVING", undefined],
      ["b 5 a [b] copying", "b LEAVING", undefined],
      ["b 5 a (b) copying", "b RESYNC", true],
    ] as const) {
      const disk = asUnproven(aCopiedDisk([store]), hostId("h1"), 100);
      const proof = prove(disk, new Map([heardOf(heard)]));
      expect(partsOf(proof.disk), heard).to.deep.equal([`5: a COUNTS, ${left}`]);
      expect(proof.disk.parts[0]?.copies[1]?.isMixed, heard).to.equal(isMixed);
      const again = prove(proof.disk, new Map([heardOf(heard)]));
      expect(again.is === "waits" && again.for.includes(deviceId("a")) && again.disk, heard).to.equal(proof.disk);
    }
  });

  it("a session is not opened that a device of the disk has already, from an order that the store has lost", () => {
    const disk = asUnproven(aCopiedDisk(["5: a COUNTS"]), hostId("h1"), 30);
    for (const [text, isBefore] of [
      ["a 5 a", true],
      ["a 5 a other", false],
      ["a", false],
    ] as const)
      expect(isIssuedBefore(disk, heardOf(text)[1]), text).to.equal(isBefore);
    expect(isIssuedBefore(asUnproven(disk, hostId("h1"), 31), heardOf("a 5 a")[1])).to.equal(false);
  });

  it("a copy that counts by a later record than its own is believed, although its own says that it is filled", () => {
    const heard = "a 9 a+b, b 7 a [b] copying".split(", ").map(heardOf);
    const proof = prove(asUnproven(aCopiedDisk(["5: a COUNTS"]), hostId("h1"), 100), new Map(heard));
    expect(proof.disk.parts[0]?.copies).to.deep.equal([
      { deviceId: deviceId("a"), state: "COUNTS" },
      { deviceId: deviceId("b"), state: "COUNTS", isUnrecorded: true },
    ]);
  });

  it("numbers go on above all that was heard", () => {
    const disk = asUnproven(aCopiedDisk(["5: a COUNTS"]), hostId("h1"), 10);
    const proof = prove(disk, new Map([heardOf("a 70 a")]));
    expect(proof).to.include({ is: "proven", highestNumber: 70 });
    const waiting = prove(disk, new Map([heardOf("c 80 a+c")]));
    expect(waiting).to.include({ is: "waits", highestNumber: 80 });
    expect(partsOf(waiting.disk)).to.deep.equal(["80: a COUNTS, c COUNTS"]);
    expect(waiting.disk.isUnproven).to.equal(true);
  });
});
