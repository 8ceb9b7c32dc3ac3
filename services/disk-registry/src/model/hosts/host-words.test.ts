import { NotFoundError } from "@diskmesh/domain";
import { expect } from "chai";
import { aDevice, aDisk, aHost, diskId, hostId, leader, remembered, TestFleet } from "../../testing/fleet-fixture.js";
import { planOrders, whyNotTold, whyNotToldToLetGo } from "../devices/orders.js";
import { isPlaceable, NOBODY_SUSPECTED } from "../disks/placement.js";
import type { Host, Publication } from "../store/schema.js";
import { applyHeartbeat, findSilent, findSilentDead, markUnavailable, requireRegistered } from "./heartbeats.js";
import { type HostWord, sayOfHosts } from "./host-words.js";
import { registerAgent } from "./registration.js";
import { giveUpOnHost, removalTimedOut } from "./removal-timeout.js";
import { removeHost } from "./remove-action.js";

const NOW_MS = 1_000_000;
const h1 = hostId("h1");
const word = { by: "operator ada", atMs: NOW_MS, reason: "burnt down" };
const limits = {
  unavailableRemovalTimeoutMs: 60_000,
  closingRetryAfterMs: 1,
  erasingRetryAfterMs: 1,
  waitingRetryAfterMs: 10,
  maxWaitingRetryAfterMs: 300_000,
};
const call = {
  keepData: false,
  limits,
  eraseState: () => ({ erasedBytes: 0, failedTries: 0 }),
  moveProgressOf: () => undefined,
  nowMs: NOW_MS,
  listenedMs: NOW_MS,
};
const published: Publication = {
  hostId: h1,
  state: "PUBLISHED",
  sessionNumber: 150,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
};

/** Returns a fleet in which h1 is a VM, has devices d1 (of disk x) and d2 (being closed), and serves disk y of h2. */
function scene(told: Partial<Host> = {}): TestFleet {
  return new TestFleet({
    hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 }, ...told }), aHost("h2")],
    devices: [
      aDevice("d1", { diskId: diskId("x") }),
      aDevice("d2", { attachState: "CLOSING" }),
      aDevice("d3", { attachState: "ATTACHING" }),
      aDevice("e1", { hostId: hostId("h2"), diskId: diskId("y") }),
    ],
    disks: [aDisk("x", ["d1"]), aDisk("y", ["e1"], { publication: published })],
  });
}

const say = (fleet: TestFleet, what: HostWord, ...ids: string[]) =>
  fleet.transact((tx) => sayOfHosts(tx, ids.map(hostId), what, word));

const register = (fleet: TestFleet, exports = [{ diskId: diskId("y"), sessionNumber: 150 }]) =>
  fleet.transact((tx) => {
    const { address, az, rack, bootId } = fleet.host("h1");
    const registration = { hostId: h1, address, az, rack, bootId, devices: [], exports, remembered };
    return registerAgent(tx, registration, leader, { maxHosts: 9, probationMs: 5_000 }, NOW_MS + 10);
  });

const dead = { state: "DEAD", saidDead: word, mustRegister: true, stateMessage: "dead" } as const;

describe("an operator's override of hosts", () => {
  const cases: readonly [string, Partial<Host>, HostWord, string, boolean][] = [
    ["ONLINE, said dead", {}, "dead", "DEAD", true],
    ["WARNING after silence, said dead", { state: "WARNING", probationEndsAtMs: 5 }, "dead", "DEAD", true],
    ["UNAVAILABLE, said dead", { state: "UNAVAILABLE" }, "dead", "DEAD", true],
    ["DEAD, said dead again", dead, "dead", "DEAD", false],
    ["DEAD, taken back", dead, "back", "UNAVAILABLE", true],
    ["ONLINE, taken back", {}, "back", "ONLINE", false],
    ["UNAVAILABLE, taken back", { state: "UNAVAILABLE" }, "back", "UNAVAILABLE", false],
  ];
  for (const [cause, told, what, state, changes] of cases) {
    it(`${cause} -> ${state}, ${changes ? "changed" : "as it was"}`, () => {
      const fleet = scene(told);
      const before = fleet.host("h1");
      const touched = say(fleet, what, "h1");
      expect(fleet.host("h1").state).to.equal(state);
      expect(touched.hostIds).to.deep.equal(changes ? ["h1"] : []);
      if (changes) expect(fleet.host("h1")).to.include({ mustRegister: true, stateChangedAtMs: NOW_MS });
      else expect(fleet.host("h1")).to.deep.equal(before);
      expect(fleet.host("h1").saidDead !== undefined).to.equal(state === "DEAD");
      expect(fleet.host("h1").probationEndsAtMs).to.equal(undefined);
    });
  }

  it("DEAD lists author, reason, and the affected things", () => {
    const fleet = scene();
    expect(say(fleet, "dead", "h1")).to.deep.equal({
      hostIds: ["h1"],
      devices: 3,
      heldDiskIds: ["x"],
      servedDiskIds: ["y"],
      vmCids: ["vm-1"],
      fencedDiskIds: [],
    });
    expect(fleet.host("h1").stateMessage).to.contain("operator ada").and.to.contain("burnt down");
    expect(fleet.disk("y").publication).to.deep.equal(published);
  });

  it("an unknown host among several changes none", () => {
    const fleet = scene();
    expect(() => say(fleet, "dead", "h1", "h9")).to.throw(NotFoundError, "h9");
    expect(fleet.host("h1").state).to.equal("ONLINE");
  });

  it("a DEAD host gets no orders; once registered, it gets detach orders only", () => {
    const fleet = scene();
    const plan = () => planOrders(fleet.tables, h1, { maxDevices: 9, isDue: () => true });
    const orders = () => [...(plan()?.attach ?? []), ...(plan()?.detach ?? [])].map(({ deviceId }) => deviceId);
    expect(orders()).to.have.members(["d2", "d3"]);
    say(fleet, "dead", "h1");
    expect(whyNotToldToLetGo(fleet.host("h1"))).to.contain("DEAD");
    expect(orders()).to.deep.equal([]);
    register(fleet);
    expect(whyNotTold(fleet.host("h1"))).to.contain("DEAD");
    expect(whyNotToldToLetGo(fleet.host("h1"))).to.equal(undefined);
    expect(orders()).to.deep.equal(["d2"]);
  });

  it("a DEAD host that is heard must register, stays DEAD, and loses what it served", () => {
    const fleet = scene();
    say(fleet, "dead", "h1");
    expect(() => requireRegistered(fleet.tables, h1, "h1-boot-1")).to.throw("register again");
    const { strayExports } = register(fleet);
    expect(strayExports.map((entry) => entry.diskId)).to.deep.equal(["y"]);
    expect(fleet.host("h1").state).to.equal("DEAD");
    expect(fleet.host("h1").mustRegister).to.equal(undefined);
    expect(fleet.disk("y").publication).to.include({ state: "UNPUBLISHING", hostId: "h1", sessionNumber: 201 });
    fleet.transact((tx) => applyHeartbeat(tx, h1, "h1-boot-1", { changed: [] }, NOW_MS + 20));
    fleet.transact((tx) => markUnavailable(tx, [h1], 5, NOW_MS + 30));
    expect(fleet.host("h1").state).to.equal("DEAD");
    expect(findSilentDead(fleet.tables, () => 6, 5)).to.deep.equal(["h1"]);
    expect(findSilentDead(fleet.tables, () => 5, 5)).to.deep.equal([]);
  });

  it("a host taken back and registered passes probation before it is ONLINE", () => {
    const fleet = scene();
    say(fleet, "dead", "h1");
    register(fleet);
    say(fleet, "back", "h1");
    expect(() => requireRegistered(fleet.tables, h1, "h1-boot-1")).to.throw("register again");
    register(fleet, []);
    expect(fleet.host("h1")).to.include({ state: "WARNING", probationEndsAtMs: NOW_MS + 5_010 });
  });

  it("a cordoned host keeps its state and takes no new disk or VM, dead or alive, until it is opened again", () => {
    const fleet = scene();
    expect(isPlaceable(fleet.host("h2"), NOBODY_SUSPECTED)).to.equal(true);
    expect(say(fleet, "cordoned", "h2").hostIds).to.deep.equal(["h2"]);
    expect(say(fleet, "cordoned", "h2").hostIds).to.deep.equal([]);
    expect(fleet.host("h2")).to.deep.include({ state: "ONLINE", cordoned: word });
    expect(isPlaceable(fleet.host("h2"), NOBODY_SUSPECTED)).to.equal(false);
    say(fleet, "dead", "h2");
    expect(fleet.host("h2")).to.deep.include({ state: "DEAD", cordoned: word });
    expect(say(fleet, "back", "h2").hostIds).to.deep.equal(["h2"]);
    expect(fleet.host("h2")).to.include({ state: "UNAVAILABLE" }).and.not.to.have.property("cordoned");
    say(fleet, "cordoned", "h1");
    say(fleet, "back", "h1");
    expect(fleet.host("h1")).to.include({ state: "ONLINE" }).and.not.to.have.property("cordoned");
  });

  it("a cordoned host stays so when its agent registers again", () => {
    const fleet = scene({ cordoned: word });
    register(fleet);
    expect(fleet.host("h1")).to.deep.include({ cordoned: word });
  });

  it("the removal of a DEAD host does not wait", () => {
    const fleet = scene({ state: "UNAVAILABLE", silentAtListenedMs: NOW_MS });
    const waiting = fleet.transact((tx) => removeHost(tx, h1, call));
    expect(waiting.code).to.equal("E_TRY_AGAIN");
    expect(removalTimedOut(fleet.host("h1"), limits, NOW_MS)).to.equal(false);
    say(fleet, "dead", "h1");
    // Setting the wall clock back does not change the result.
    expect(removalTimedOut(fleet.host("h1"), limits, 0)).to.equal(true);
    expect(fleet.transact((tx) => giveUpOnHost(tx, h1, limits, call))).to.equal(1);
    expect(fleet.device("d2")).to.include({ attachState: "DETACHED", detachConfirmed: false });
  });

  it("7 of 12 silent hosts declared dead end the mass silence, one does not", () => {
    const hosts = Array.from({ length: 12 }, (_, i) => aHost(`h${i}`));
    const silence = (saidDead: number) => {
      const fleet = new TestFleet({ hosts });
      say(fleet, "dead", ...hosts.slice(0, saidDead).map((host) => host.hostId));
      const silentForMs = (id: string) => (Number(id.slice(1)) < 7 ? 6_000 : 0);
      const found = findSilent(fleet.tables, silentForMs, { timeoutMs: 5_000, intervalMs: 1_000 }, NOW_MS + 1);
      return [found.silent.length, found.massSilent.length];
    };
    expect(silence(0)).to.deep.equal([0, 7]);
    expect(silence(1)).to.deep.equal([0, 6]);
    expect(silence(7)).to.deep.equal([0, 0]);
  });
});
