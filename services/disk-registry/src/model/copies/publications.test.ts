import type { DeviceId } from "@diskmesh/domain";
import { expect } from "chai";
import { aCopiedDisk, aPublication, partsOf } from "../../testing/copied-disks.js";
import { deviceId, hostId } from "../../testing/fleet-fixture.js";
import { noteEqual } from "./adding.js";
import type { CopiedDisk } from "./copied-disk.js";
import {
  beginEnd,
  beginFence,
  beginPublication,
  completeSession,
  isExportLost,
  mayDropUnheard,
  noteCleanEnd,
  noteConfirmed,
  type Unheard,
} from "./publications.js";

/** Completes with the grants of these devices; `b?` grants, and its record does not say that it counts. */
function complete(disk: CopiedDisk, granted: string, excused = ""): CopiedDisk | undefined {
  const ids = (text: string): readonly string[] => (text === "" ? [] : text.split(" "));
  const grants = ids(granted).map((id): [DeviceId, { saysCounts: boolean }] => [
    deviceId(id.replace("?", "")),
    { saysCounts: !id.endsWith("?") },
  ]);
  const given = { granted: new Map(grants), excused: new Set(ids(excused).map(deviceId)), nowMs: 7, layout: 20 };
  return completeSession(disk, given);
}

describe("publications of disks with several copies", () => {
  const publishing = aPublication({ state: "PUBLISHING", revision: 1, confirmedRevision: 0 });
  const cases: readonly [string, string, Partial<CopiedDisk>, string, string, string][] = [
    ["all grant", "5: a COUNTS, b COUNTS", {}, "a b", "", "5: a COUNTS, b COUNTS"],
    ["one is waited for", "5: a COUNTS, b COUNTS", {}, "a", "", "waits"],
    ["one may be dropped", "5: a COUNTS, b COUNTS", {}, "a", "b", "20: a COUNTS, b DROPPED"],
    ["none grants, all may be dropped", "5: a COUNTS, b COUNTS", {}, "", "a b", "waits"],
    ["the last end was unclean", "5: a COUNTS, b COUNTS", { isUnclean: true }, "a b", "", "20: a COUNTS, b RESYNC"],
    ["unclean, the first is away", "5: a COUNTS, b COUNTS", { isUnclean: true }, "b", "a", "20: a DROPPED, b COUNTS"],
    ["one has a record that it does not count", "5: a COUNTS, b COUNTS", {}, "a? b", "", "20: a RESYNC, b COUNTS"],
    ["no record says that it counts", "5: a COUNTS", {}, "a?", "", "waits"],
    ["one that leaves was not heard", "5: a LEAVING, b COUNTS", {}, "b", "", "waits"],
    ["one that leaves is excused", "5: a LEAVING, b COUNTS", {}, "b", "a", "5: a LEAVING, b COUNTS"],
    ["a dropped one is back", "5: a COUNTS, b DROPPED", {}, "a b", "", "5: a COUNTS, b DROPPED"],
    ["the store may be old", "5: a COUNTS", { isUnproven: true }, "a", "", "waits"],
  ];
  for (const [cause, part, fields, granted, excused, result] of cases)
    it(`${cause} -> ${result}`, () => {
      const after = complete(aCopiedDisk([part], { publication: publishing, ...fields }), granted, excused);
      expect(after === undefined ? "waits" : partsOf(after)[0]).to.equal(result);
      if (after !== undefined) expect(after).to.deep.include({ isUnclean: true });
    });

  it("a copy counts from EQUAL on, also if the holder ended before it wrote that into the copy's record", () => {
    const copying = aCopiedDisk(["5: a COUNTS, b COPYING open"], { publication: aPublication() });
    const equal = noteEqual(copying, { part: 0, deviceId: deviceId("b"), session: 9, revision: 3 }, 6);
    if (equal === undefined) throw new Error("EQUAL was refused");
    const publish = (disk: CopiedDisk) => complete(beginPublication(disk, { hostId: hostId("h2") }, 12), "b?", "a");
    const late = { ...equal, publication: aPublication({ revision: 4, confirmedRevision: 2 }) };
    for (const before of [equal, noteConfirmed(late, { session: 9, revision: 3 })])
      expect(partsOf(publish(before) ?? before)).to.deep.equal(["20: a DROPPED, b COUNTS"]);
    expect(publish(noteConfirmed(equal, { session: 9, revision: 4 }))).to.equal(undefined);
  });

  it("a disk waits for each of its parts", () => {
    const disk = aCopiedDisk(["5: a COUNTS, b COUNTS", "5: c COUNTS"], { publication: publishing });
    expect(complete(disk, "a b")).to.equal(undefined);
    expect(complete(disk, "a b c")?.publication?.state).to.equal("PUBLISHED");
  });

  it("a fence leaves the choice to the next publication, and drops who did not grant", () => {
    const fenced = beginFence(
      aCopiedDisk(["5: a COUNTS, b COUNTS"], { publication: aPublication(), isUnclean: true }),
      12,
    );
    expect(fenced.publication).to.include({ state: "FENCING", session: 12 });
    const both = complete(fenced, "a b");
    expect(both).to.deep.include({ publication: undefined, isUnclean: true });
    expect(both && partsOf(both)).to.deep.equal(["5: a COUNTS, b COUNTS"]);
    expect(complete(fenced, "b", "a")?.parts[0]?.copies[0]).to.include({ state: "DROPPED", sinceMs: 7 });
  });

  it("a repair of a disk that nobody uses leaves it clean, and makes the choice", () => {
    const unclean = aCopiedDisk(["5: a COUNTS, b COUNTS"], { isUnclean: true });
    const repaired = complete(beginPublication(unclean, { hostId: hostId("h1"), isRepair: true }, 12), "a b");
    expect(repaired).to.deep.include({ isUnclean: undefined });
    expect(repaired && partsOf(repaired)).to.deep.equal(["20: a COUNTS, b RESYNC"]);
  });

  it("a new session ends the copies and the snapshot of the former one", () => {
    const snapshot = { jobId: "j", diskId: "y" as never, session: 9, targetSession: 10, targets: [], granted: [] };
    const disk = aCopiedDisk(["5: a COUNTS, b COPYING open"], { publication: aPublication(), snapshot });
    const renewed = beginPublication(disk, aPublication(), 12);
    expect(partsOf(renewed)).to.deep.equal(["5: a COUNTS, b COPYING"]);
    expect(renewed).to.deep.include({ snapshot: undefined, lastSession: 12 });
  });
});

describe("ends of publications", () => {
  const published = aCopiedDisk(["5: a COUNTS, b COUNTS"], { publication: aPublication(), isUnclean: true });
  const ending = beginEnd(published);

  for (const [cause, disk, said, isUnclean] of [
    ["of this session and revision", ending, { session: 9, revision: 3 }, undefined],
    ["of an older revision", ending, { session: 9, revision: 2 }, true],
    ["of an older session", ending, { session: 8, revision: 3 }, true],
    ["before the end was asked for", published, { session: 9, revision: 3 }, true],
    ["after a higher session was begun", beginFence(ending, 12), { session: 9, revision: 3 }, true],
  ] as const)
    it(`a clean end is reported ${cause} -> ${isUnclean ? "unclean" : "clean"}`, () => {
      expect(noteCleanEnd(disk, said).isUnclean).to.equal(isUnclean);
    });

  it("a registration without the session shows that the export is lost", () => {
    const lost = (host: string, ...servedSessions: number[]): boolean =>
      isExportLost(published, { hostId: hostId(host), servedSessions });
    expect([lost("h1"), lost("h1", 8), lost("h1", 9), lost("h2")]).to.deep.equal([true, true, false, false]);
  });

  it("a late confirmation of an older revision or another session changes nothing", () => {
    expect(noteConfirmed(published, { session: 9, revision: 2 })).to.equal(published);
    expect(noteConfirmed(published, { session: 8, revision: 9 })).to.equal(published);
    expect(noteConfirmed(published, { session: 9, revision: 4 }).publication?.confirmedRevision).to.equal(4);
  });
});

describe("copies that do not grant", () => {
  const limits = { copyGrantTimeoutMs: 15_000, readLeaseMs: 6_000 };
  const silent: Unheard = {
    isHostSilent: true,
    askedForMs: 7_000,
    othersGrantedForMs: 7_000,
    isWaitedFor: false,
    isMassSilence: false,
  };
  for (const [cause, unheard, expected] of [
    ["their host is silent", {}, true],
    ["their host is silent, and a former holder may read them", { othersGrantedForMs: 5_000 }, false],
    ["no other has granted", { othersGrantedForMs: undefined }, false],
    ["most hosts are silent", { isMassSilence: true }, false],
    ["their host is heard", { isHostSilent: false, isWaitedFor: true }, false],
    ["their drive hangs, and somebody waits", { isHostSilent: false, isWaitedFor: true, askedForMs: 15_000 }, true],
    ["their drive hangs, and nobody waits", { isHostSilent: false, askedForMs: 99_000 }, false],
  ] as const)
    it(`${cause} -> ${expected ? "dropped" : "waited for"}`, () => {
      expect(mayDropUnheard({ ...silent, ...unheard }, limits)).to.equal(expected);
    });
});
