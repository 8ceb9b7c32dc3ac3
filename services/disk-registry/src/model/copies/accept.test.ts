import { expect } from "chai";
import { aCopiedDisk, aPublication, hostOf, partsOf } from "../../testing/copied-disks.js";
import { deviceId } from "../../testing/fleet-fixture.js";
import { acceptDroppedCopy, type HostWord, offers } from "./accept.js";
import type { CopiedDisk } from "./copied-disk.js";
import { beginPublication, completeSession, noteConfirmed } from "./publications.js";

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

  for (const [awaited, result] of [
    [["a"], "20: a LEAVING, b COUNTS"],
    [["a", "b"], "UNHEARD"],
    [undefined, "UNHEARD"],
  ] as const)
    it(`the store may be old, ${awaited ?? "nobody knows who"} is awaited -> ${result}`, () => {
      const disk = aCopiedDisk(["5: a COUNTS, b DROPPED"], { isUnproven: true });
      const at = { layout: 20, wordOn: () => "SAID_DEAD" as const, awaited: awaited?.map(deviceId) };
      const answer = acceptDroppedCopy(disk, { part: 0, deviceId: deviceId("b") }, at);
      expect(answer.is === "refused" ? answer.why : partsOf(answer.disk)[0]).to.equal(result);
    });

  it("a copy that was being filled is published, whatever its own record says, until its holder has written another", () => {
    const publication = aPublication({ state: "PUBLISHING", confirmedRevision: 0 });
    const lost = aCopiedDisk(["5: a COUNTS, c RESYNC"], { publication });
    const named = { part: 0, deviceId: deviceId("c") };
    const answer = acceptDroppedCopy(lost, named, { layout: 20, wordOn: () => "SAID_DEAD" });
    const disk = answer.is === "accepted" ? answer.disk : lost;
    const granted = new Map([[deviceId("c"), { saysCounts: false }]]);
    const grants = { granted, excused: new Set([deviceId("a")]), nowMs: 0, layout: 21 };
    const published = completeSession(disk, grants);
    expect(published?.publication?.state).to.equal("PUBLISHED");
    const excused = new Set([deviceId("a"), deviceId("c")]);
    expect(completeSession(disk, { ...grants, granted: new Map(), excused })).to.equal(undefined);

    const confirmed = published && noteConfirmed(published, { session: 9, revision: 3 });
    const again = confirmed && beginPublication(confirmed, { hostId: publication.hostId }, 30);
    expect(again && completeSession(again, grants)).to.equal(undefined);
  });

  it("offers say what is lost, those first that lose least", () => {
    const disk = aCopiedDisk(["5: a COUNTS, b DROPPED, c RESYNC, d COPYING"]);
    expect(
      offers(disk, 0, hostOf).map(({ deviceId: id, state, sinceMs }) => `${id} ${state} ${sinceMs}`),
    ).to.deep.equal(["c RESYNC 1", "b DROPPED 1"]);
  });
});
