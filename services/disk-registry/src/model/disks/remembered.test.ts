import { expect } from "chai";
import { aHost, hostId, leader, TestFleet } from "../../testing/fleet-fixture.js";
import { lastReportedGapAtMs, mayHaveGiven, nextSessionNumber, skipValues } from "../devices/counters.js";
import {
  adopt,
  forgetStarts,
  judgeNumbers,
  type Numbers,
  noteOther,
  noteStart,
  numbersKnownTo,
  originOf,
  ownNumbers,
  predecessorsOf,
  raiseCounters,
  raisedAbove,
  registeredHosts,
  requireRegistration,
  whyStandsStill,
} from "./remembered.js";

const HOUR_MS = 3_600_000;
const NOW_MS = 10 * HOUR_MS;
const AHEAD = 1_000;
const limits = { believedAhead: AHEAD, raiseIntervalMs: HOUR_MS };
const PARENTS = ["parent", "grandparent"];

const aFleet = () => new TestFleet({ hosts: [aHost("h1"), aHost("h2")], generation: 50, session: 60 });

describe("the registry that an agent obeys", () => {
  const rows: readonly [string, string, string, string][] = [
    ["nobody", "", "", "own"],
    ["this incarnation", leader.tabletId, leader.incarnation, "own"],
    ["this tablet, of the time before incarnations", leader.tabletId, "", "own"],
    ["what this one was restored from", leader.tabletId, "parent", "predecessor"],
    ["what that was restored from", leader.tabletId, "grandparent", "predecessor"],
    ["an incarnation that was adopted", leader.tabletId, "adopted", "predecessor"],
    ["a tablet that was adopted", "lost", "adopted", "predecessor"],
    ["another incarnation", leader.tabletId, "stranger", "other incarnation"],
    ["another incarnation of a tablet that was adopted", "lost", "stranger", "other tablet"],
    ["another tablet", "stranger", "parent", "other tablet"],
  ];
  for (const [title, tabletId, incarnation, origin] of rows)
    it(`${title} -> ${origin}`, () => {
      const fleet = aFleet();
      for (const adopted of [leader.tabletId, "lost"])
        fleet.transact((tx) => adopt(tx, { tabletId: adopted, incarnation: "adopted" }, NOW_MS));
      expect(originOf(fleet.tables, leader, PARENTS, { tabletId, incarnation })).to.equal(origin);
    });

  it("agents are sent the incarnation's parents and adopted ones", () => {
    const fleet = aFleet();
    fleet.transact((tx) => adopt(tx, { tabletId: "lost", incarnation: "" }, NOW_MS));
    expect(predecessorsOf(fleet.tables, leader, PARENTS)).to.deep.equal([
      { tabletId: leader.tabletId, incarnation: "parent" },
      { tabletId: leader.tabletId, incarnation: "grandparent" },
      { tabletId: "lost", incarnation: "" },
    ]);
  });
});

describe("the numbers that an agent remembers", () => {
  const own: Numbers = { tabletGeneration: 7, deviceGeneration: 50, sessionNumber: 60 };
  const rows: readonly [string, Partial<Numbers>, "own" | "predecessor", string][] = [
    ["less", { tabletGeneration: 6, deviceGeneration: 49, sessionNumber: 59 }, "own", "known"],
    ["as much", own, "own", "known"],
    ["a higher tablet generation", { tabletGeneration: 8 }, "own", "raise"],
    ["a higher device generation", { deviceGeneration: 51 }, "own", "raise"],
    ["a higher session number", { sessionNumber: 61 }, "own", "raise"],
    ["the highest that is believed", { sessionNumber: 60 + AHEAD }, "own", "raise"],
    ["one more", { sessionNumber: 61 + AHEAD }, "own", "refuse"],
    ["a device generation that is too high", { deviceGeneration: 51 + AHEAD }, "own", "refuse"],
    [
      "a tablet generation that is too high, and a session that is not",
      { tabletGeneration: 2 ** 50, sessionNumber: 61 },
      "own",
      "refuse",
    ],
    [
      "generations of a predecessor, whose stamps count no more",
      { tabletGeneration: 2 ** 50, deviceGeneration: 2 ** 50 },
      "predecessor",
      "known",
    ],
    ["a predecessor's session", { sessionNumber: 61 }, "predecessor", "raise"],
    ["a predecessor's session that is too high", { sessionNumber: 61 + AHEAD }, "predecessor", "refuse"],
  ];
  for (const [title, seen, origin, verdict] of rows)
    it(`${title} -> ${verdict}`, () => {
      const fleet = aFleet();
      expect(ownNumbers(fleet.tables, leader)).to.deep.equal(own);
      expect(judge(fleet, seen, origin).verdict).to.equal(verdict);
    });

  it("a believed report covers those of all others, and the next one is believed after the interval", () => {
    const fleet = aFleet();
    const upTo = raisedAbove(own, AHEAD);
    fleet.transact((tx) => raiseCounters(tx, upTo, { above: own, reportedAtMs: NOW_MS }));
    const raised = ownNumbers(fleet.tables, leader);
    expect(raised).to.include({ deviceGeneration: 50 + AHEAD, sessionNumber: 60 + AHEAD });
    expect(lastReportedGapAtMs(fleet.tables)).to.equal(NOW_MS);
    expect(judge(fleet, { sessionNumber: 60 + AHEAD }).verdict).to.equal("known");
    const more = { sessionNumber: 61 + AHEAD };
    expect(judge(fleet, more, "own", NOW_MS + HOUR_MS - 1)).to.deep.include({ verdict: "refuse" });
    expect(judge(fleet, more, "own", NOW_MS + HOUR_MS).verdict).to.equal("raise");
    expect(judge(fleet, more, "own", NOW_MS - 1).verdict, "the clock was set back").to.equal("raise");
  });

  it("an operator's word does not use up the interval", () => {
    const fleet = aFleet();
    fleet.transact((tx) => raiseCounters(tx, raisedAbove(own, AHEAD), { above: own }));
    expect(judge(fleet, { sessionNumber: 61 + AHEAD }).verdict).to.equal("raise");
  });

  function judge(fleet: TestFleet, seen: Partial<Numbers>, origin: "own" | "predecessor" = "own", nowMs = NOW_MS) {
    const { tabletId, incarnation } = leader;
    const nothing = { tabletGeneration: 0, deviceGeneration: 0, sessionNumber: 0 };
    return judgeNumbers(
      fleet.tables,
      ownNumbers(fleet.tables, leader),
      { tabletId, incarnation, ...nothing, ...seen },
      origin,
      limits,
      nowMs,
    );
  }
});

describe("skipped numbers", () => {
  it("were not given, but the numbers before and after may have been", () => {
    const fleet = aFleet();
    fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 100 }));
    expect(fleet.transact(nextSessionNumber)).to.equal(101);
    fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 90 }));
    const given = [60, 61, 100, 101, 102].map((value) => mayHaveGiven(fleet.tables, "session_number", value));
    expect(given).to.deep.equal([true, false, false, true, false]);
  });

  it("include those given meanwhile that may have been given elsewhere", () => {
    const fleet = aFleet();
    for (let given = 61; given <= 65; given++) fleet.transact(nextSessionNumber);
    fleet.transact((tx) => skipValues(tx, "session_number", { above: 60, upTo: 100 }));
    const given = [60, 61, 65, 100].map((value) => mayHaveGiven(fleet.tables, "session_number", value));
    expect(given).to.deep.equal([true, false, false, false]);
  });

  it("are remembered up to a limit", () => {
    const fleet = aFleet();
    for (let upTo = 100; upTo < 200; upTo++) fleet.transact((tx) => skipValues(tx, "session_number", { upTo }));
    expect(fleet.tables.counters.get("session_number")?.gaps).to.have.length(64);
    expect(mayHaveGiven(fleet.tables, "session_number", 199)).to.equal(false);
  });
});

describe("the numbers that an agent can know before this leader sends anything", () => {
  const start = (tabletGeneration: number, sessionNumber: number): Numbers => ({
    ...{ tabletGeneration, sessionNumber },
    deviceGeneration: 50,
  });
  const atFirst = start(6, 60);

  it("are those given when the leader began that followed the last one it obeyed", () => {
    const fleet = aFleet();
    for (const noted of [start(2, 30), start(4, 40), start(5, 40), start(7, 60)])
      fleet.transact((tx) => noteStart(tx, noted));
    const known = [0, 1, 2, 3, 4, 6, 7].map(
      (generation) => numbersKnownTo(fleet.tables, atFirst, generation).sessionNumber,
    );
    expect(known).to.deep.equal([30, 30, 40, 40, 60, 60, 60]);
    expect(numbersKnownTo(fleet.tables, atFirst, 0).tabletGeneration, "generations of others").to.equal(6);
    expect(fleet.tables.starts.size, "nothing was given in generation 4").to.equal(3);
    fleet.transact(forgetStarts);
    expect(numbersKnownTo(fleet.tables, atFirst, 0)).to.equal(atFirst);
  });

  it("are kept for the last leaders", () => {
    const fleet = aFleet();
    for (let n = 1; n <= 100; n++) fleet.transact((tx) => noteStart(tx, start(n, n)));
    expect([...fleet.tables.starts.entries()].map(({ tabletGeneration }) => tabletGeneration)).to.deep.equal(
      Array.from({ length: 64 }, (_, n) => n + 37),
    );
  });
});

describe("hosts that must register again", () => {
  it("are found until none is left", () => {
    const fleet = aFleet();
    const first = registeredHosts(fleet.tables, 1);
    expect(first).to.deep.equal(["h1"]);
    fleet.transact((tx) => requireRegistration(tx, first));
    expect(registeredHosts(fleet.tables, 9)).to.deep.equal(["h2"]);
    fleet.transact((tx) => requireRegistration(tx, [hostId("h2"), hostId("gone")]));
    expect(registeredHosts(fleet.tables, 9)).to.deep.equal([]);
  });
});

describe("another incarnation that agents obey", () => {
  const other = { tabletId: leader.tabletId, incarnation: "other", hostId: hostId("h1"), heardAtMs: 5 };

  it("of this tablet stops this registry, until it is adopted", () => {
    const fleet = aFleet();
    expect(whyStandsStill(fleet.tables, leader)).to.equal(undefined);
    expect(fleet.transact((tx) => noteOther(tx, other, 3))).to.equal(true);
    expect(fleet.transact((tx) => noteOther(tx, { ...other, hostId: hostId("h2") }, 3))).to.equal(false);
    expect(whyStandsStill(fleet.tables, leader)).to.contain("host h1 obeys incarnation other of tablet tablet-1");
    fleet.transact((tx) => adopt(tx, other, NOW_MS));
    expect(whyStandsStill(fleet.tables, leader)).to.equal(undefined);
    expect([...fleet.tables.fleets.entries()]).to.deep.equal([{ ...other, adoptedAtMs: NOW_MS }]);
  });

  it("is remembered up to a limit", () => {
    const fleet = aFleet();
    const noted = ["a", "b", "c"].map((incarnation) =>
      fleet.transact((tx) => noteOther(tx, { ...other, incarnation }, 2)),
    );
    expect(noted).to.deep.equal([true, true, false]);
  });
});
