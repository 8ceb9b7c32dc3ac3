import { expect } from "chai";
import { aCopiedDisk, aPublication, hostOf, partsOf } from "../../testing/copied-disks.js";
import { deviceId } from "../../testing/fleet-fixture.js";
import { acceptDroppedCopy, type HostWord, offers } from "./accept.js";
import type { CopiedDisk } from "./copied-disk.js";

describe("a dropped copy that a person has count", () => {
  const part = "5: a COUNTS, b DROPPED, c RESYNC, d COPYING";
  const cases: readonly [string, string, HostWord, Partial<CopiedDisk>, string][] = [
    ["the host of the last one is DEAD", "b", "SAID_DEAD", {}, "20: a LEAVING, b COUNTS, c RESYNC, d COPYING"],
    ["the last one is silent", "b", "SILENT", {}, "STILL_HEARD"],
    ["the last one is heard", "b", "HEARD", {}, "STILL_HEARD"],
    ["it has nothing", "d", "SAID_DEAD", {}, "NOT_OFFERED"],
    ["the disk is used", "b", "SAID_DEAD", { publication: aPublication() }, "IN_USE"],
    [
      "a publication waits for the last one",
      "c",
      "SAID_DEAD",
      { publication: aPublication({ state: "PUBLISHING" }) },
      "20: a LEAVING, b DROPPED, c COUNTS, d COPYING",
    ],
  ];
  for (const [cause, device, word, fields, result] of cases)
    it(`${cause} -> ${result}`, () => {
      const named = { part: 0, deviceId: deviceId(device) };
      const answer = acceptDroppedCopy(aCopiedDisk([part], fields), named, { layout: 20, wordOn: () => word });
      expect(answer.is === "refused" ? answer.why : partsOf(answer.disk)[0]).to.equal(result);
    });

  it("offers say what is lost, those first that lose least", () => {
    const disk = aCopiedDisk(["5: a COUNTS, b DROPPED, c RESYNC, d COPYING"]);
    expect(
      offers(disk, 0, hostOf).map(({ deviceId: id, state, sinceMs }) => `${id} ${state} ${sinceMs}`),
    ).to.deep.equal(["c RESYNC 1", "b DROPPED 1"]);
  });
});
