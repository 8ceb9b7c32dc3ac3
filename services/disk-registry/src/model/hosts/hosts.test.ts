import {
  AbortedError,
  AlreadyExistsError,
  type HostId,
  InvalidStateError,
  NotFoundError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { expect } from "chai";
import { aDevice, aDisk, aHost, deviceId, diskId, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import { assignHost, unassignHost } from "../disks/host-assignment.js";
import { isPlaceable } from "../disks/placement.js";
import type { Host } from "../store/schema.js";
import {
  afterMassSilence,
  applyHeartbeat,
  endProbation,
  findSilent,
  markUnavailable,
  requireRegistered,
} from "./heartbeats.js";

const NOW_MS = 1_000_000;
const TIMEOUT_MS = 5_000;

const HEARTBEAT = { timeoutMs: TIMEOUT_MS, intervalMs: 1_000 };

/**
 * Returns the silent hosts among n hosts h0, h1, ...: the first `silent` exceed the timeout, the next `quiet` nearly
 * do, and `lost` became UNAVAILABLE just now.
 */
function silenceOf(n: number, silent: number, lost = 0, quiet = 0): ReturnType<typeof findSilent> {
  const hosts = Array.from({ length: n }, (_, i) => aHost(`h${i}`));
  const dead = Array.from({ length: lost }, (_, i) =>
    aHost(`lost${i}`, { state: "UNAVAILABLE", stateChangedAtMs: NOW_MS - 1_000 }),
  );
  const fleet = new TestFleet({ hosts: [...hosts, ...dead] });
  const silentForMs = (id: HostId) => {
    const index = Number(id.slice(1));
    return index < silent ? TIMEOUT_MS + 1 : index < silent + quiet ? TIMEOUT_MS - 999 : TIMEOUT_MS - 1_000;
  };
  return findSilent(fleet.tables, silentForMs, HEARTBEAT, NOW_MS);
}

describe("heartbeats", () => {
  const cases: readonly [string, ReturnType<typeof findSilent>, number, number][] = [
    ["all heard", silenceOf(20, 0), 0, 0],
    ["9 of 9 silent: a small fleet may die at once", silenceOf(9, 9), 9, 0],
    ["5 of 10 silent: not more than half", silenceOf(10, 5), 5, 0],
    ["6 of 10 silent: more than half", silenceOf(10, 6), 0, 6],
    ["10 of 10 silent", silenceOf(10, 10), 0, 10],
    ["4 of 8 silent, 2 lost just before: 6 of 10 in one window", silenceOf(8, 4, 2), 0, 4],
    ["1 of 10 silent, 5 more within an interval: all are cut off", silenceOf(10, 1, 0, 5), 0, 1],
    ["1 of 10 silent, 4 more within an interval", silenceOf(10, 1, 0, 4), 1, 0],
    ["3 of 8 silent, 2 lost just before: 5 of 10 in one window", silenceOf(8, 3, 2), 3, 0],
  ];
  for (const [cause, found, silent, massSilent] of cases) {
    it(`${cause} -> ${silent} UNAVAILABLE, ${massSilent} in a mass silence`, () => {
      expect([found.silent.length, found.massSilent.length]).to.deep.equal([silent, massSilent]);
    });
  }

  it("a mass silence ends once no host has come back for the timeout, or all have; only then are the others dead", () => {
    const fewest = (fewestSilent: number, overAtMs: number) => ({ fewestSilent, overAtMs });
    const steps: readonly [string, number, number, { silent: number; massSilent: number; mass: unknown }][] = [
      ["8 of 10 fall silent", 8, 0, { silent: 0, massSilent: 8, mass: fewest(8, 5_000) }],
      ["none is back yet", 8, 1_000, { silent: 0, massSilent: 8, mass: fewest(8, 6_000) }],
      ["half are back", 5, 2_000, { silent: 0, massSilent: 5, mass: fewest(5, 7_000) }],
      ["more are back", 3, 6_000, { silent: 0, massSilent: 3, mass: fewest(3, 11_000) }],
      ["one more is silent", 4, 8_000, { silent: 0, massSilent: 4, mass: fewest(3, 11_000) }],
      ["that one is back, nobody new", 3, 10_999, { silent: 0, massSilent: 3, mass: fewest(3, 11_000) }],
      ["the timeout is over", 3, 11_000, { silent: 3, massSilent: 0, mass: undefined }],
      ["another one falls silent", 4, 12_000, { silent: 4, massSilent: 0, mass: undefined }],
      ["again", 9, 20_000, { silent: 0, massSilent: 9, mass: fewest(9, 25_000) }],
      ["all are back at once", 0, 21_000, { silent: 0, massSilent: 0, mass: undefined }],
      ["one falls silent", 1, 22_000, { silent: 1, massSilent: 0, mass: undefined }],
    ];
    let mass: ReturnType<typeof afterMassSilence>["mass"];
    for (const [cause, silent, atMs, effect] of steps) {
      const after = afterMassSilence(silenceOf(10, silent), mass, TIMEOUT_MS, atMs);
      mass = after.mass;
      const { silence } = after;
      expect({ silent: silence.silent.length, massSilent: silence.massSilent.length, mass }, cause).to.deep.equal(
        effect,
      );
    }
  });

  it("a host silent for exactly the timeout is not UNAVAILABLE yet", () => {
    const fleet = new TestFleet({});
    expect(findSilent(fleet.tables, () => TIMEOUT_MS, HEARTBEAT, NOW_MS).silent).to.deep.equal([]);
    expect(findSilent(fleet.tables, () => TIMEOUT_MS + 1, HEARTBEAT, NOW_MS).silent).to.deep.equal(["h1"]);
  });

  it("a heartbeat makes an UNAVAILABLE host ONLINE again", () => {
    const fleet = new TestFleet({});
    fleet.transact((tx) => markUnavailable(tx, [hostId("h1")], TIMEOUT_MS, NOW_MS));
    expect(fleet.host("h1")).to.include({ state: "UNAVAILABLE", stateChangedAtMs: NOW_MS });
    expect(fleet.host("h1").stateMessage).to.contain("for 5 s");
    expect(fleet.changes((tx) => markUnavailable(tx, [hostId("h1")], TIMEOUT_MS, NOW_MS + 1))).to.equal(0);
    fleet.transact((tx) => applyHeartbeat(tx, hostId("h1"), "h1-boot-1", { changed: [] }, NOW_MS + 5));
    expect(fleet.host("h1")).to.include({ state: "ONLINE", stateMessage: "", stateChangedAtMs: NOW_MS + 5 });
  });

  it("an agent's warning makes its host WARNING, without new disks, until it ends", () => {
    const fleet = new TestFleet({});
    const beat = (warning: string, atMs: number) =>
      fleet.transact((tx) => applyHeartbeat(tx, hostId("h1"), "h1-boot-1", { changed: [], warning }, atMs, 100));
    const state = () => `${fleet.host("h1").state} ${fleet.host("h1").stateMessage}`.trim();
    beat("its disk is full", NOW_MS);
    expect(state()).to.equal("WARNING host h1: its disk is full");
    expect(isPlaceable(fleet.host("h1"), () => undefined)).to.equal(false);
    fleet.transact((tx) => markUnavailable(tx, [hostId("h1")], TIMEOUT_MS, NOW_MS));
    expect(fleet.host("h1").state).to.equal("UNAVAILABLE");
    beat("its disk is full", NOW_MS + 10);
    expect(state()).to.match(/^WARNING host h1 is back from UNAVAILABLE/);
    fleet.transact((tx) => endProbation(tx, [hostId("h1")], NOW_MS + 200));
    expect(state()).to.equal("WARNING host h1: its disk is full");
    beat("", NOW_MS + 300);
    expect(state()).to.equal("ONLINE");
    expect(isPlaceable(fleet.host("h1"), () => undefined)).to.equal(true);
  });

  it("an unknown host gets NOT_FOUND, an earlier start ABORTED", () => {
    const fleet = new TestFleet({});
    expect(() => requireRegistered(fleet.tables, hostId("h9"), "b")).to.throw(NotFoundError);
    expect(() => requireRegistered(fleet.tables, hostId("h1"), "h1-boot-0")).to.throw(AbortedError);
  });

  it("health changes apply to own devices only, and replaced hardware stays in error", () => {
    const replacement = { path: "/p", offsetBytes: 0, sizeBytes: 1, blockSizeBytes: 1, serialNumber: "" };
    const fleet = new TestFleet({
      devices: [
        aDevice("d1"),
        aDevice("d2", { hostId: hostId("h2") }),
        aDevice("d3", { health: "ERROR", replacement }),
      ],
    });
    const bad = (id: string) => ({ deviceId: deviceId(id), health: "WARNING", healthMessage: "slow" }) as const;
    fleet.transact((tx) =>
      applyHeartbeat(tx, hostId("h1"), "h1-boot-1", { changed: [bad("d1"), bad("d2"), bad("d3"), bad("d9")] }, NOW_MS),
    );
    expect(fleet.device("d1")).to.include({ health: "WARNING", healthMessage: "slow", attachState: "ATTACHED" });
    expect(fleet.device("d2").health).to.equal("ONLINE");
    expect(fleet.device("d3").health).to.equal("ERROR");
  });
});

describe("host assignment", () => {
  const request = (vmCid: string, az = "", disks: string[] = []) => ({ vmCid, az, diskIds: disks.map(diskId) });
  const hosts: Host[] = [aHost("h1"), aHost("h2"), aHost("h3", { az: "z2" })];
  const assign = (fleet: TestFleet, vmCid: string, az = "", disks: string[] = []) =>
    fleet.transact((tx) => assignHost(tx, request(vmCid, az, disks), NOW_MS)).hostId;

  it("gives each VM a host of its own in its az, the same again when repeated, and RESOURCE_EXHAUSTED when none is left", () => {
    const fleet = new TestFleet({ hosts });
    expect(assign(fleet, "vm1", "z1")).to.equal("h1");
    expect(assign(fleet, "vm1", "z1")).to.equal("h1");
    expect(assign(fleet, "vm2", "z1")).to.equal("h2");
    const text = "no host is free for VM vm3 in az z1: 2 taken (h1 by vm1, h2 by vm2): delete VMs, or add hosts";
    expect(() => assign(fleet, "vm3", "z1")).to.throw(ResourceExhaustedError, text);
    expect(() => assign(fleet, "vm3", "z9")).to.throw(ResourceExhaustedError, "there is no host; add hosts");
    expect(assign(fleet, "vm3")).to.equal("h3");
    expect(() => assign(fleet, "vm1", "z2")).to.throw(AlreadyExistsError, "h1");
  });

  it("prefers hosts with the VM's disks", () => {
    const fleet = new TestFleet({
      hosts,
      devices: [aDevice("d1", { hostId: hostId("h2"), diskId: diskId("x") })],
      disks: [aDisk("x", ["d1"])],
    });
    expect(assign(fleet, "vm1", "z1", ["x"])).to.equal("h2");
    expect(() => assign(fleet, "vm2", "z1", ["nope"])).to.throw(NotFoundError, "nope");
  });

  const away = [
    aHost("h1", { state: "UNAVAILABLE", stateChangedAtMs: NOW_MS - 90_000 }),
    aHost("h2", { removalRequested: true }),
  ];

  it("skips hosts that are UNAVAILABLE or under removal", () => {
    const text = "2 that cannot be assigned now (h1 is UNAVAILABLE for 90 s, h2 is to be removed): bring them back";
    expect(() => assign(new TestFleet({ hosts: away }), "vm1")).to.throw(ResourceExhaustedError, text);
  });

  it("answers UNAVAILABLE when a free host is away briefly, as during a restart of its agent", () => {
    const text =
      "3 that cannot be assigned now (h1 is UNAVAILABLE for 90 s, h2 is to be removed, h3 must register again)";
    const fleet = new TestFleet({ hosts: [...away, aHost("h3", { mustRegister: true })] });
    expect(() => assign(fleet, "vm1")).to.throw(UnavailableError, text);
    const silent = new TestFleet({ hosts: [aHost("h1")] });
    const suspected = () => silent.transact((tx) => assignHost(tx, request("vm1"), NOW_MS, () => "is suspected"));
    expect(suspected).to.throw(UnavailableError, "h1 is suspected");
  });

  it("names the first of many hosts and counts the rest when none is free", () => {
    const many = Array.from({ length: 30 }, (_, n) => aHost(`host-${n}`, { removalRequested: true }));
    const named = /: 30 that cannot be assigned now \((host-\d+ is to be removed, ){8}and 22 more\): bring them back$/;
    expect(() => assign(new TestFleet({ hosts: many }), "vm1")).to.throw(ResourceExhaustedError, named);
  });

  it("frees a host, succeeds for an unknown VM, and is refused with disks published for the VM, not with others there", () => {
    const fleet = new TestFleet({ hosts });
    assign(fleet, "vm1", "z1");
    fleet.transact((tx) => unassignHost(tx, "vm1"));
    expect(fleet.host("h1").assignment).to.equal(undefined);
    fleet.transact((tx) => unassignHost(tx, "vm1"));
    const publication = {
      hostId: hostId("h1"),
      state: "PUBLISHED",
      sessionNumber: 5,
      exportPath: "/x",
      attempts: 0,
      lastError: "",
    } as const;
    const busy = (vmCid?: string) =>
      new TestFleet({
        hosts: [aHost("h1", { assignment: { vmCid: "vm1", assignedAtMs: 0 } })],
        disks: [aDisk("x", [], { publication: { ...publication, vmCid } })],
      });
    const unassign = (fleet: TestFleet) => fleet.transact((tx) => unassignHost(tx, "vm1"));
    expect(() => unassign(busy("vm1"))).to.throw(InvalidStateError, "unpublish x first");
    expect(() => unassign(busy()), "published by 0.1.0").to.throw(InvalidStateError);
    const ofHost = busy("");
    unassign(ofHost);
    expect(ofHost.host("h1").assignment).to.equal(undefined);
    expect(ofHost.disk("x").publication).to.include({ hostId: "h1", state: "PUBLISHED" });
  });
});
