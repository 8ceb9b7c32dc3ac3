import { expect } from "chai";
import { aCopiedDisk, hostOf } from "../../testing/copied-disks.js";
import { deviceId, hostId } from "../../testing/fleet-fixture.js";
import type { CopiedDisk } from "./copied-disk.js";
import { bytesToGive, misplacedCopy, planRepairs } from "./repairs.js";

/** Racks of the hosts: a and b share one. */
const rackOf = (id: string): string => (id.startsWith("a") || id.startsWith("b") ? "ab" : id.slice(0, 1));

function plan(disks: readonly CopiedDisk[], free: string, { limit = 9, unfit = "" } = {}): readonly string[] {
  const placeOf = (id: ReturnType<typeof deviceId>) => ({ hostId: hostOf(id), rack: rackOf(id) });
  const candidates =
    free === "" ? [] : free.split(" ").map((id) => ({ deviceId: deviceId(id), ...placeOf(deviceId(id)) }));
  const isFit = (id: string): boolean => !unfit.split(" ").includes(id);
  return planRepairs(disks, { free: candidates, placeOf, isFit, limit }).map(
    ({ disk, part, deviceId: to }) => `${disk.diskId}/${part} ${to}`,
  );
}

describe("repairs", () => {
  const cases: readonly [string, string, string, string, readonly string[]][] = [
    ["a copy is missing", "5: a COUNTS", "b c", "", ["x/0 c"]],
    ["only the same rack has room", "5: a COUNTS", "b", "", ["x/0 b"]],
    ["only the same host has room", "5: a COUNTS", "a2", "", []],
    ["enough count", "5: a COUNTS, c COUNTS", "d", "", []],
    ["one is being filled", "5: a COUNTS, c COPYING", "d", "", []],
    ["one is being filled on a host that is not steady", "5: a COUNTS, c COPYING", "d", "c", ["x/0 d"]],
    ["one was dropped, and its host is steady again", "5: a COUNTS, c DROPPED", "d", "", ["x/0 c"]],
    ["one was dropped, and its host is not steady", "5: a COUNTS, c DROPPED", "d", "c", ["x/0 d"]],
  ];
  for (const [cause, part, free, unfit, result] of cases)
    it(`${cause} -> ${result.join() || "nothing"}`, () => {
      expect(plan([aCopiedDisk([part])], free, { unfit })).to.deep.equal(result);
    });

  it("a part moves within its host, too", () => {
    const disk = aCopiedDisk(["5: a COUNTS, c COUNTS"]);
    const parts = disk.parts.map((part) => ({ ...part, moveFrom: deviceId("a") }));
    expect(plan([{ ...disk, parts }], "a2")).to.deep.equal(["x/0 a2"]);
  });

  it("the limit is the fleet's, copies that are being filled count, and the barest parts come first", () => {
    const bare = aCopiedDisk(["5: a COUNTS"], { copiesWished: 3 });
    const less = aCopiedDisk(["5: a COUNTS, c COUNTS", "5: b COUNTS, c2 COUNTS, d COPYING"], { copiesWished: 3 });
    expect(plan([less, bare], "e e2 e3", { limit: 2 })).to.deep.equal(["x/0 e"]);
    expect(plan([less, bare], "e e2 e3", { limit: 1 })).to.deep.equal([]);
  });

  it("an unproven disk is left alone", () => {
    expect(plan([aCopiedDisk(["5: a COUNTS"], { isUnproven: true })], "c")).to.deep.equal([]);
  });

  it("two counting copies on one host are noticed", () => {
    const part = (text: string) => aCopiedDisk([text]).parts[0] as CopiedDisk["parts"][number];
    expect(misplacedCopy(part("5: a COUNTS, a2 COUNTS"), hostOf)).to.equal("a2");
    expect(misplacedCopy(part("5: a COUNTS, a2 LEAVING"), hostOf)).to.equal(undefined);
  });

  it("new disks leave the room to repair the largest host", () => {
    const host = (id: string, usedBytes: bigint, freeBytes: bigint) => ({ hostId: hostId(id), usedBytes, freeBytes });
    expect(bytesToGive([host("a", 60n, 40n), host("b", 10n, 90n), host("c", 30n, 70n)])).to.equal(100n);
    expect(bytesToGive([host("a", 60n, 40n), host("b", 70n, 30n)])).to.equal(0n);
    expect(bytesToGive([])).to.equal(0n);
  });
});
