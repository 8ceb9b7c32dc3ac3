import { expect } from "chai";
import { aHost, TestFleet } from "../testing/fleet-fixture.js";
import { removalTimesOutAtMs } from "./remove-action.js";
import { massSilenceNow, massSilenceRan, noteAwake, noteMassSilence, skipTimeOut } from "./vigil.js";

const TIMEOUT_MS = 1_000;

describe("what a leader that looks after hosts leaves to the next one", () => {
  /** UNAVAILABLE since 100. */
  const fleetOf = () => new TestFleet({ hosts: [aHost("h1", { state: "UNAVAILABLE", stateChangedAtMs: 100 })] });
  const timesOut = (fleet: TestFleet) => removalTimesOutAtMs(fleet.host("h1"), TIMEOUT_MS);

  const rows: [string, awakeAtMs: number | undefined, beganAtMs: number, timesOutAtMs: number][] = [
    ["awake until 300, away until 5,000 -> 200 of the time have counted", 300, 5_000, 5_800],
    ["awake until just now -> all has counted", 5_000, 5_000, 1_100],
    ["never noted -> nothing has counted", undefined, 5_000, 6_000],
    ["last noted before the host fell silent -> nothing has counted", 50, 5_000, 6_000],
    ["a clock that went back -> all has counted", 6_000, 5_000, 1_100],
  ];
  for (const [title, awakeAtMs, beganAtMs, timesOutAtMs] of rows)
    it(title, () => {
      const fleet = fleetOf();
      if (awakeAtMs !== undefined) fleet.transact((tx) => noteAwake(tx, awakeAtMs));
      fleet.transact((tx) => skipTimeOut(tx, beganAtMs));
      expect(timesOut(fleet)).to.equal(timesOutAtMs);
      fleet.transact((tx) => skipTimeOut(tx, beganAtMs));
      expect(timesOut(fleet), "the same leader again").to.equal(timesOutAtMs);
    });

  it("a host that is heard again and falls silent later -> counted from then on", () => {
    const fleet = fleetOf();
    fleet.transact((tx) => skipTimeOut(tx, 5_000));
    fleet.transact((tx) => tx.hosts.put({ ...fleet.host("h1"), stateChangedAtMs: 9_000 }));
    expect(timesOut(fleet)).to.equal(10_000);
  });

  it("a mass silence is remembered while it runs, whatever else is noted", () => {
    const fleet = fleetOf();
    expect(massSilenceRan(fleet.tables)).to.equal(false);
    fleet.transact((tx) => noteMassSilence(tx, true, 100));
    fleet.transact((tx) => noteAwake(tx, 200));
    expect(massSilenceRan(fleet.tables)).to.equal(true);
    fleet.transact((tx) => noteMassSilence(tx, false, 300));
    expect(massSilenceRan(fleet.tables)).to.equal(false);
  });

  it("of a mass silence it is told since when, and how many are suspected of those that are not DEAD", () => {
    const hosts = [aHost("h1"), aHost("h2"), aHost("h3"), aHost("h4", { state: "DEAD" })];
    const fleet = new TestFleet({ hosts });
    const told = () => massSilenceNow(fleet.tables, (hostId) => (hostId === "h1" ? undefined : "silent"));
    expect(told()).to.equal(undefined);
    fleet.transact((tx) => noteMassSilence(tx, true, 100));
    fleet.transact((tx) => noteAwake(tx, 200));
    expect(told()).to.deep.equal({ sinceMs: 100, silentHosts: 2, hosts: 3 });
    fleet.transact((tx) => noteMassSilence(tx, false, 300));
    expect(told()).to.equal(undefined);
  });
});
