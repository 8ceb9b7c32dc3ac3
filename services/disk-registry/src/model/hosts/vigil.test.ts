import { expect } from "chai";
import { aHost, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { markUnavailable } from "./heartbeats.js";
import { sayOfHosts } from "./host-words.js";
import { removalTimesOutAtMs } from "./removal-timeout.js";
import {
  isAnyUncounted,
  listenedBefore,
  massSilenceNow,
  massSilenceRan,
  noteListened,
  noteMassSilence,
} from "./vigil.js";

const TIMEOUT_MS = 1_000;

describe("the host monitoring state that a leader leaves to the next one", () => {
  const silent = { state: "UNAVAILABLE", stateChangedAtMs: 100 } as const;
  const leftMs = (fleet: TestFleet, listenedMs: number, nowMs = 0) =>
    (removalTimesOutAtMs(fleet.host("h1"), TIMEOUT_MS, { nowMs, listenedMs }) ?? Number.NaN) - nowMs;

  it("contains the listening time, and its value when each host's silence began", () => {
    const fleet = new TestFleet({ hosts: [aHost("h1", silent), aHost("h2"), aHost("h3", { state: "DEAD" })] });
    expect([listenedBefore(fleet.tables), isAnyUncounted(fleet.tables)]).to.deep.equal([0, true]);
    expect(leftMs(fleet, 5_000), "nothing has counted").to.equal(TIMEOUT_MS);
    fleet.transact((tx) => noteListened(tx, 5_000));
    expect([listenedBefore(fleet.tables), isAnyUncounted(fleet.tables)]).to.deep.equal([5_000, false]);
    fleet.transact((tx) => noteListened(tx, 5_200));
    expect(leftMs(fleet, 5_300), "from the first note on").to.equal(700);
    expect(leftMs(fleet, 4_000), "a leader that heard less of it").to.equal(TIMEOUT_MS);
    expect(leftMs(fleet, 9_999)).to.equal(0);
    expect(["h2", "h3"].map((id) => fleet.host(id).silentAtListenedMs)).to.deep.equal([undefined, undefined]);
  });

  it("does not depend on the wall clock", () => {
    const fleet = new TestFleet({ hosts: [aHost("h1", { ...silent, silentAtListenedMs: 5_000 })] });
    for (const nowMs of [0, 100, 9_000_000]) expect(leftMs(fleet, 5_400, nowMs)).to.equal(600);
  });

  it("counts anew for a host that was heard and falls silent later, or is declared alive", () => {
    const counted = { silentAtListenedMs: 5_000 };
    const fleet = new TestFleet({ hosts: [aHost("h1", counted), aHost("h2", { ...counted, state: "DEAD" })] });
    fleet.transact((tx) => markUnavailable(tx, [hostId("h1")], TIMEOUT_MS, 100));
    fleet.transact((tx) => sayOfHosts(tx, [hostId("h2")], "back", { by: "ann", atMs: 100, reason: "" }));
    expect(["h1", "h2"].map((id) => fleet.host(id).silentAtListenedMs)).to.deep.equal([undefined, undefined]);
    expect(leftMs(fleet, 9_000)).to.equal(TIMEOUT_MS);
  });

  it("contains a mass silence while it runs", () => {
    const fleet = new TestFleet({});
    expect(massSilenceRan(fleet.tables)).to.equal(false);
    fleet.transact((tx) => noteMassSilence(tx, true, 100));
    fleet.transact((tx) => noteListened(tx, 200));
    expect(massSilenceRan(fleet.tables)).to.equal(true);
    fleet.transact((tx) => noteMassSilence(tx, false, 300));
    expect(listenedBefore(fleet.tables)).to.equal(200);
    expect(massSilenceRan(fleet.tables)).to.equal(false);
  });

  it("contains a mass silence's start, and the number of suspected hosts without the DEAD ones", () => {
    const hosts = [aHost("h1"), aHost("h2"), aHost("h3"), aHost("h4", { state: "DEAD" })];
    const fleet = new TestFleet({ hosts });
    const told = () => massSilenceNow(fleet.tables, (hostId) => (hostId === "h1" ? undefined : "silent"));
    expect(told()).to.equal(undefined);
    fleet.transact((tx) => noteMassSilence(tx, true, 100));
    fleet.transact((tx) => noteListened(tx, 200));
    expect(told()).to.deep.equal({ sinceMs: 100, silentHosts: 2, hosts: 3 });
    fleet.transact((tx) => noteMassSilence(tx, false, 300));
    expect(told()).to.equal(undefined);
  });
});
