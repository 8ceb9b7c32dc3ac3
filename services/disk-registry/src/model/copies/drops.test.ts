import { expect } from "chai";
import { aCopiedDisk, aPublication, partsOf } from "../../testing/copied-disks.js";
import { deviceId } from "../../testing/fleet-fixture.js";
import type { CopiedPublication } from "./copied-disk.js";
import { dropCopy } from "./drops.js";

const at = { layout: 20, nowMs: 7 };

describe("drops of copies", () => {
  const cases: readonly [string, string, string, Partial<CopiedPublication> | undefined, string][] = [
    ["another counts", "5: a COUNTS, b COUNTS", "b", {}, "20: a COUNTS, b DROPPED"],
    ["it is the last", "5: a COUNTS, b RESYNC", "a", {}, "LAST_COPY"],
    ["it is being filled", "5: a COUNTS, b COPYING open", "b", {}, "5: a COUNTS, b LEAVING"],
    ["it is resynced", "5: a COUNTS, b RESYNC open", "b", {}, "5: a COUNTS, b RESYNC"],
    ["the revision is older", "5: a COUNTS, b COUNTS", "b", { revision: 4 }, "OUTDATED"],
    ["the session is older", "5: a COUNTS, b COUNTS", "b", { session: 10 }, "OUTDATED"],
    ["the holder is asked to end", "5: a COUNTS, b COUNTS", "b", { state: "ENDING" }, "OUTDATED"],
    ["the disk is fenced", "5: a COUNTS, b COUNTS", "b", { state: "FENCING" }, "OUTDATED"],
    ["the disk is not published", "5: a COUNTS, b COUNTS", "b", undefined, "OUTDATED"],
    ["it was dropped before", "5: a COUNTS, b DROPPED", "b", { revision: 4 }, "5: a COUNTS, b DROPPED"],
  ];
  for (const [cause, part, device, publication, result] of cases)
    it(`a copy fails, ${cause} -> ${result}`, () => {
      const disk = aCopiedDisk([part], { publication: publication && aPublication(publication) });
      const answer = dropCopy(disk, { part: 0, deviceId: deviceId(device), session: 9, revision: 3 }, at);
      expect(answer.is === "refused" ? answer.why : partsOf(answer.disk)[0]).to.equal(result);
    });

  it("a drop is another revision, which its holder does not follow yet", () => {
    const disk = aCopiedDisk(["5: a COUNTS, b COUNTS"], { publication: aPublication() });
    const answer = dropCopy(disk, { part: 0, deviceId: deviceId("b"), session: 9, revision: 3 }, at);
    expect(answer.is === "dropped" && answer.disk.publication).to.include({ revision: 4, confirmedRevision: 3 });
  });
});
