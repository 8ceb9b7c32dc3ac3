import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import { aDevice, aDisk, aHost, deviceId, diskId, hostId, MIB, TestFleet } from "../../testing/fleet-fixture.js";
import { decideUnknown } from "../hosts/decide-unknown.js";
import { allDevices, countingDevices, partsOn } from "../store/layout.js";
import { holds } from "../store/runs.js";
import type { Device, Disk, Host } from "../store/schema.js";
import { diskHealth } from "./disks.js";
import { completeChange, setDiskLimits } from "./export-changes.js";
import { cancelDiskMoves, migrateDisk, replaceDevice } from "./move-disk.js";
import { chooseAnyTarget, chooseTarget } from "./move-target.js";
import { MoveTurns } from "./move-turns.js";
import {
  beginTarget,
  beginTry,
  type Copying,
  completeCopy,
  cutOver,
  failTry,
  giveUpTarget,
  type Mirroring,
  type Moving,
  planMove,
} from "./moves.js";
import { completePublish, completeUnpublish, requestPublish, requestUnpublish } from "./publications.js";
import { moveAway, stay } from "./removal-moves.js";

const x = diskId("x");
const [h1, h3] = [hostId("h1"), hostId("h3")];
const choice = { draw: 0, nowMs: 9, whySuspected: () => undefined, maxParts: 8 };

/** Disk x lies on d1 of h1; d2 of h2 is free, and h3 has no devices. */
function scene(hosts: Partial<Record<"h1" | "h2", Partial<Host>>> = {}, devices: readonly Device[] = []): TestFleet {
  return new TestFleet({
    hosts: [aHost("h1", hosts.h1), aHost("h2", hosts.h2), aHost("h3")],
    devices: [aDevice("d1", { diskId: x }), aDevice("d2", { hostId: hostId("h2") }), ...devices],
    disks: [aDisk("x", ["d1"])],
  });
}

const parts = (fleet: TestFleet) =>
  fleet.disk("x").parts.flatMap(({ copies }) => copies.map((c) => `${c.deviceId} ${c.state}`));
const publish = (fleet: TestFleet) => {
  fleet.transact((tx) => requestPublish(tx, x, h3));
  settle(fleet);
};
const unpublish = (fleet: TestFleet) => {
  fleet.transact((tx) => requestUnpublish(tx, x, undefined));
  settle(fleet);
};

/** Does what the publication worker does once all agents have obeyed. */
function settle(fleet: TestFleet): void {
  const { publication } = fleet.disk("x");
  if (publication === undefined) return;
  fleet.transact((tx) => {
    if (publication.state === "PUBLISHING") completePublish(tx, x, publication, { exportPath: "/x", fixedSize: false });
    else if (publication.state === "UNPUBLISHING") completeUnpublish(tx, x, publication, true);
    else if ((publication.revision ?? 0) > (publication.confirmedRevision ?? 0)) completeChange(tx, x, publication);
  });
}

/** Does the next step up to a try, and returns that try. */
function toTry(fleet: TestFleet): Copying | Mirroring {
  for (let steps = 0; steps < 10; steps++) {
    const step = planMove(fleet.tables, x);
    if (step.kind === "copy" || step.kind === "mirror") return step;
    if (step.kind === "choose") {
      const chosen = chooseTarget(fleet.tables, step, choice);
      if (!("spaces" in chosen)) throw new Error(chosen.why);
      fleet.transact((tx) => beginTarget(tx, step, chosen.spaces));
    } else if (step.kind === "begin") fleet.transact((tx) => beginTry(tx, x));
    else if (step.kind === "give_up") fleet.transact((tx) => giveUpTarget(tx, x, step.index, step.why));
    else settle(fleet);
  }
  throw new Error(`no try was reached: ${planMove(fleet.tables, x).kind}`);
}

const complete = (fleet: TestFleet, seen: Copying | Mirroring): boolean =>
  fleet.transact((tx) => ("publication" in seen ? cutOver(tx, seen) : completeCopy(tx, seen)));

describe("moves", () => {
  const migrate = (fleet: TestFleet) => fleet.transact((tx) => migrateDisk(tx, x, hostId("h2"), 9));

  it("a disk that is not published is copied in a session of its own, and its source is freed to be erased", () => {
    const fleet = scene();
    migrate(fleet);
    const seen = toTry(fleet);
    expect(seen).to.deep.include({ sessionNumber: 201, sizeBytes: 64 * MIB });
    expect(fleet.disk("x").lastSessionNumber).to.equal(201);
    expect(parts(fleet)).to.deep.equal(["d1 COUNTS", "d2 COPYING"]);
    expect(complete(fleet, seen)).to.equal(true);
    expect(parts(fleet)).to.deep.equal(["d2 COUNTS"]);
    expect(fleet.seen("d1")).to.deep.include({ diskId: "", dirty: true, lastSessionNumber: 201 });
    expect(planMove(fleet.tables, x).kind).to.equal("none");
  });

  it("a published disk is mirrored by its holder; the source leaves once the holder has the new layout", () => {
    const fleet = scene();
    publish(fleet);
    const { sessionNumber } = fleet.disk("x").publication ?? {};
    migrate(fleet);
    const seen = toTry(fleet);
    expect(fleet.disk("x").publication).to.deep.include({ sessionNumber, revision: 1, confirmedRevision: 1 });
    expect(complete(fleet, seen)).to.equal(true);
    expect(parts(fleet)).to.deep.equal(["d2 COUNTS", "d1 LEAVING"]);
    expect(fleet.seen("d1").diskId, "until the holder confirms").to.equal("x");
    settle(fleet);
    expect(parts(fleet)).to.deep.equal(["d2 COUNTS"]);
    expect(fleet.seen("d1")).to.deep.include({ diskId: "", dirty: true });
    expect(fleet.disk("x").parts[0]?.copies[0]?.sessionNumber, "the target's own session").to.equal(seen.sessionNumber);
  });

  it("the confirmation of an older revision than the cut-over's does not free the source", () => {
    const fleet = scene();
    publish(fleet);
    migrate(fleet);
    const seen = toTry(fleet);
    const before = fleet.disk("x").publication;
    complete(fleet, seen);
    if (before) fleet.transact((tx) => completeChange(tx, x, before));
    expect(parts(fleet)).to.deep.equal(["d2 COUNTS", "d1 LEAVING"]);
  });

  const always: readonly [string, (fleet: TestFleet) => void][] = [
    ["CancelMove", (fleet) => fleet.transact((tx) => cancelDiskMoves(tx, x))],
    [
      "CancelMove and another request",
      (fleet) => {
        fleet.transact((tx) => cancelDiskMoves(tx, x));
        migrate(fleet);
      },
    ],
    ["ReplaceDevice", (fleet) => fleet.transact((tx) => replaceDevice(tx, x, deviceId("d1"), 9))],
    [
      "a failure of the try",
      (fleet) => {
        const seen = toTry(fleet);
        fleet.transact((tx) => failTry(tx, seen, "it broke"));
      },
    ],
  ];
  const inOrder =
    (...steps: ((fleet: TestFleet) => void)[]) =>
    (fleet: TestFleet): void => {
      for (const step of steps) step(fleet);
    };
  const rows: readonly (readonly [boolean, string, (fleet: TestFleet) => void])[] = [
    ...[false, true].flatMap((isPublished) => always.map(([what, act]) => [isPublished, what, act] as const)),
    [false, "a publication", publish],
    [false, "a publication and its end", inOrder(publish, unpublish)],
    [true, "an unpublication", unpublish],
    [true, "a publication anew", inOrder(unpublish, publish)],
  ];
  for (const [isPublished, what, interrupt] of rows)
    it(`an answer that comes after ${what} changes nothing (disk ${isPublished ? "" : "not "}published)`, () => {
      const fleet = scene();
      if (isPublished) publish(fleet);
      migrate(fleet);
      const seen = toTry(fleet);
      interrupt(fleet);
      const after = fleet.disk("x");
      expect(complete(fleet, seen)).to.equal(false);
      expect(fleet.disk("x")).to.deep.equal(after);
      expect(countingDevices(after)).to.deep.equal(["d1"]);
    });

  it("new limits of the disk in between: an EQUAL of the former revision changes nothing, and the move goes on", () => {
    const fleet = scene();
    publish(fleet);
    migrate(fleet);
    const seen = toTry(fleet);
    const limits = { readIops: 9, writeIops: 0, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };
    fleet.transact((tx) => setDiskLimits(tx, x, limits));
    expect(complete(fleet, seen)).to.equal(false);
    settle(fleet);
    expect(complete(fleet, toTry(fleet))).to.equal(true);
  });

  it("a failed try begins anew in another session; the third failure, or one of the target, takes another target", () => {
    const fleet = scene({}, [aDevice("d3", { hostId: h3 })]);
    publish(fleet);
    fleet.transact((tx) => replaceDevice(tx, x, deviceId("d1"), 9));
    const sessions = new Set<number>();
    for (const attempts of [1, 2, 3, 4]) {
      const seen = toTry(fleet);
      expect(sessions).not.to.include(seen.sessionNumber);
      sessions.add(seen.sessionNumber);
      fleet.transact((tx) => failTry(tx, seen, "broken", { isOfTarget: attempts === 4 }));
      expect(fleet.disk("x").parts[0]?.move).to.deep.include({ attempts, lastError: "broken" });
      const isFreed = attempts >= 3;
      expect(fleet.seen(seen.target.deviceId).dirty, `after ${attempts}`).to.equal(isFreed);
      expect(fleet.disk("x").publication?.revision, "the holder is told").to.equal(2 * attempts);
      if (isFreed) fleet.transact((tx) => tx.devices.put({ ...fleet.device(seen.target.deviceId), runs: [] }));
    }
  });

  it("a failed try that can go on keeps its session; the third failure takes another target", () => {
    const fleet = scene({}, [aDevice("d3", { hostId: h3 })]);
    fleet.transact((tx) => replaceDevice(tx, x, deviceId("d1"), 9));
    const { sessionNumber, target } = toTry(fleet);
    for (const attempts of [1, 2, 3]) {
      expect(toTry(fleet)).to.deep.include({ sessionNumber, target: fleet.device(target.deviceId) });
      const seen = toTry(fleet);
      fleet.transact((tx) => failTry(tx, seen, "broken", { goesOn: true }));
      expect(fleet.disk("x").parts[0]?.move).to.deep.include({ attempts });
    }
    expect(fleet.seen(target.deviceId).dirty).to.equal(true);
    expect(toTry(fleet).sessionNumber).not.to.equal(sessionNumber);
  });

  for (const [what, change] of [
    ["in error", { health: "ERROR" }],
    ["to be removed", { removalRequested: true }],
    ["purged", { runs: [] }],
  ] as const)
    it(`a target that is ${what} is given up`, () => {
      const fleet = scene();
      migrate(fleet);
      const seen = toTry(fleet);
      fleet.transact((tx) => tx.devices.put({ ...fleet.device("d2"), ...change }));
      const step = planMove(fleet.tables, x);
      if (step.kind !== "give_up") throw new Error(step.kind);
      fleet.transact((tx) => giveUpTarget(tx, x, step.index, step.why));
      expect(parts(fleet)).to.deep.equal(["d1 COUNTS"]);
      expect(complete(fleet, seen)).to.equal(false);
    });

  it("a removal moves the disk away, and its end leaves it, but keeps an operator's move", () => {
    const fleet = scene({ h1: { removalRequested: true } });
    const devices = [fleet.device("d1")];
    fleet.transact((tx) => moveAway(tx, devices, 9));
    expect(toTry(fleet).target.deviceId).to.equal("d2");
    fleet.transact((tx) => stay(tx, devices));
    expect(planMove(fleet.tables, x).kind, "the host is still to be removed").to.equal("copy");
    fleet.transact((tx) => tx.hosts.put({ ...fleet.host("h1"), removalRequested: false }));
    fleet.transact((tx) => stay(tx, devices));
    expect(parts(fleet)).to.deep.equal(["d1 COUNTS"]);
    expect(planMove(fleet.tables, x).kind).to.equal("none");
    migrate(fleet);
    fleet.transact((tx) => stay(tx, devices));
    expect(planMove(fleet.tables, x).kind).to.equal("choose");
  });

  it("says which rule excludes each host, and the smallest change that helps", () => {
    const fleet = scene({ h2: { cordoned: { by: "ada", atMs: 1, reason: "test" } } });
    fleet.transact((tx) => migrateDisk(tx, x, "", 9));
    const step = planMove(fleet.tables, x);
    const chosen = step.kind === "choose" ? chooseTarget(fleet.tables, step, choice) : undefined;
    expect(chosen).to.deep.include({ isShort: true });
    const why = chosen && "why" in chosen ? chosen.why : "";
    expect(why).to.contain("host h1 has the part now");
    expect(why).to.contain("host h2 is cordoned by ada (test)");
    expect(why).to.contain("host h3 has no free device");
    expect(why).to.contain("the smallest change: diskmesh set-host-state online h2");
  });

  for (const [what, sizeBytes, count, why] of [
    ["two copies at once", 1_024 * MIB, 2, "2 copies of 2 GiB"],
    ["sixteen small copies at once", 32 * MIB, 16, "16 copies of 512 MiB"],
    ["small copies at once up to 1 GiB of them", 300 * MIB, 3, "3 copies of 900 MiB"],
  ] as const)
    it(`a host takes part in ${what}, and shares its rate out among them`, () => {
      const ids = Array.from({ length: count + 1 }, (_, index) => `disk-${index}`);
      const sources = ids.map((id) => aDevice(`s${id}`, { diskId: diskId(id), sizeBytes }));
      const fleet = new TestFleet({
        hosts: [aHost("h1"), aHost("h2")],
        devices: [...sources, ...ids.map((id) => aDevice(`t${id}`, { hostId: hostId("h2"), sizeBytes }))],
        disks: sources.map((device, index) => aDisk(ids[index] ?? "", [device.deviceId], { parts: partsOn([device]) })),
      });
      const found = ids.map((id) => {
        fleet.transact((tx) => migrateDisk(tx, diskId(id), hostId("h2"), 9));
        const step = planMove(fleet.tables, diskId(id));
        if (step.kind !== "choose") return step.kind;
        const chosen = chooseTarget(fleet.tables, step, choice);
        if ("spaces" in chosen) fleet.transact((tx) => beginTarget(tx, step, chosen.spaces));
        return "spaces" in chosen ? "chosen" : chosen.why;
      });
      expect(found.slice(0, count)).to.deep.equal(Array(count).fill("chosen"));
      expect(found[count]).to.equal(`its turn: host h1 already takes part in ${why}`);
      expect(new MoveTurns(fleet.tables).sharesOf([hostId("h1"), hostId("h3")])).to.equal(count);
    });

  it("a part without room for it does not hold up another part that has room", () => {
    const devices = [aDevice("d1", { diskId: x, sizeBytes: 128 * MIB }), aDevice("d3", { diskId: x })];
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: [...devices, aDevice("d2", { hostId: hostId("h2") })],
      disks: [aDisk("x", ["d1", "d3"], { parts: partsOn(devices) })],
    });
    fleet.transact((tx) => migrateDisk(tx, x, hostId("h2"), 9));
    const step = planMove(fleet.tables, x);
    if (step.kind !== "choose") throw new Error(step.kind);
    expect(chooseTarget(fleet.tables, step, choice)).to.have.property("why");
    const chosen = chooseAnyTarget(fleet.tables, [step, ...step.others], choice);
    if (!("spaces" in chosen)) throw new Error(chosen.why);
    fleet.transact((tx) => beginTarget(tx, chosen.moving, chosen.spaces));
    expect(parts(fleet)).to.deep.equal(["d1 COUNTS", "d3 COUNTS", "d2 COPYING"]);
    expect(planMove(fleet.tables, x)).to.deep.include({ kind: "begin", index: 1 });
  });

  describe("whose source is gone", () => {
    const endings: readonly [string, string, (fleet: TestFleet) => void][] = [
      ["the source was purged", "was purged", (fleet) => fleet.transact((tx) => tx.devices.delete("d1"))],
      ["its host is DEAD", "cannot be read", (fleet) => setHost(fleet, { state: "DEAD" })],
      ["its disks are lost", "cannot be read", (fleet) => setHost(fleet, { state: "UNAVAILABLE", lossNoted: true })],
    ];
    const setHost = (fleet: TestFleet, fields: Partial<Host>) =>
      fleet.transact((tx) => tx.hosts.put({ ...fleet.host("h1"), stateMessage: "h1 is silent", ...fields }));

    for (const [name, why, end] of endings)
      it(`frees its target, and waits without one: ${name}`, () => {
        const fleet = scene();
        migrate(fleet);
        toTry(fleet);
        end(fleet);
        const step = planMove(fleet.tables, x);
        if (step.kind !== "give_up") throw new Error(step.kind);
        fleet.transact((tx) => giveUpTarget(tx, x, step.index, step.why));
        expect(fleet.seen("d2")).to.deep.include({ diskId: "", dirty: true });
        expect(parts(fleet)).to.deep.equal(["d1 COUNTS"]);
        const waits = planMove(fleet.tables, x);
        expect(waits.kind).to.equal("wait");
        expect("why" in waits && waits.why).to.contain(why);
      });

    it("keeps its target while its host is only silent, and gets none", () => {
      const fleet = scene();
      migrate(fleet);
      toTry(fleet);
      setHost(fleet, { state: "UNAVAILABLE" });
      expect(planMove(fleet.tables, x)).to.deep.equal({ kind: "wait", why: "h1 is silent" });
      const other = scene({ h1: { state: "UNAVAILABLE", stateMessage: "h1 is silent" } });
      migrate(other);
      expect(planMove(other.tables, x)).to.deep.equal({
        kind: "wait",
        why: "its device d1 cannot be read: h1 is silent",
      });
    });

    for (const state of ["UNAVAILABLE", "DEAD"] as const)
      it(`asks the holder of a mirror, and cuts over when both copies are equal: ${state}`, () => {
        const fleet = scene();
        publish(fleet);
        migrate(fleet);
        toTry(fleet);
        setHost(fleet, { state });
        const step = planMove(fleet.tables, x);
        if (step.kind !== "mirror") throw new Error(step.kind);
        expect(complete(fleet, step)).to.equal(true);
        settle(fleet);
        expect(parts(fleet)).to.deep.equal(["d2 COUNTS"]);
        expect(diskHealth(fleet.tables, fleet.disk("x")).health).to.equal("ONLINE");
      });

    it("gives up the target of a mirror that has failed before both copies were equal, when the host is DEAD", () => {
      const fleet = scene();
      publish(fleet);
      migrate(fleet);
      const seen = toTry(fleet);
      setHost(fleet, { state: "DEAD" });
      fleet.transact((tx) => failTry(tx, seen, "the source cannot be read"));
      settle(fleet);
      expect(planMove(fleet.tables, x)).to.deep.include({ kind: "give_up" });
    });

    it("frees the target of another part while a host can never serve the disk", () => {
      const fleet = new TestFleet({
        hosts: [aHost("h1"), aHost("h2"), aHost("h3")],
        devices: [
          aDevice("d1", { diskId: x }),
          aDevice("d2", { hostId: hostId("h2"), diskId: x }),
          aDevice("d3", { hostId: h3 }),
        ],
        disks: [aDisk("x", ["d1", "d2"])],
      });
      publish(fleet);
      fleet.transact((tx) => replaceDevice(tx, x, deviceId("d2"), 9));
      toTry(fleet);
      fleet.transact((tx) => tx.devices.delete("d1"));
      expect(planMove(fleet.tables, x).kind, "the holder may have both copies").to.equal("mirror");
      fleet.transact((tx) => requestUnpublish(tx, x, undefined));
      expect(planMove(fleet.tables, x).kind).to.equal("wait");
      settle(fleet);
      expect(planMove(fleet.tables, x).kind, "another part is copied all the same").to.equal("begin");
      const again = fleet.disk("x");
      const publication = {
        hostId: h3,
        state: "PUBLISHING",
        sessionNumber: 300,
        exportPath: "",
        attempts: 0,
        lastError: "",
      };
      fleet.transact((tx) => tx.disks.put({ ...again, publication } as Disk));
      const step = planMove(fleet.tables, x);
      if (step.kind !== "give_up") throw new Error(step.kind);
      fleet.transact((tx) => giveUpTarget(tx, x, step.index, step.why));
      expect(fleet.seen("d3").diskId).to.equal("");
      expect(planMove(fleet.tables, x)).to.deep.include({ kind: "wait" });
    });

    it("lets another part move that can be read", () => {
      const fleet = new TestFleet({
        hosts: [aHost("h1", { state: "DEAD" }), aHost("h2"), aHost("h3")],
        devices: [
          aDevice("d1", { diskId: x }),
          aDevice("d2", { hostId: hostId("h2"), diskId: x }),
          aDevice("d3", { hostId: h3 }),
        ],
        disks: [aDisk("x", ["d1", "d2"])],
      });
      fleet.transact((tx) => migrateDisk(tx, x, "", 9));
      expect(planMove(fleet.tables, x)).to.deep.include({ kind: "choose", index: 1, others: [] });
    });
  });

  it("a device that was purged and has come back is no target for the disk that has lost it", () => {
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: [aDevice("d1", { diskId: x }), aDevice("d3", { hostId: hostId("h2") })],
      disks: [aDisk("x", ["d1", "d3"])],
    });
    fleet.transact((tx) => migrateDisk(tx, x, hostId("h2"), 9));
    const step = planMove(fleet.tables, x);
    if (step.kind !== "choose") throw new Error(step.kind);
    expect(chooseTarget(fleet.tables, step, choice)).to.have.property("why");
  });

  it("a disk that spreads over racks keeps to racks without another part as long as there is one", () => {
    const requested = { sizeBytes: MIB, az: "z1", hostId: "", pool: "default", spreadRacks: true } as const;
    for (const [racks, expected] of [
      [["r1", "r2", "r2", "r3"], "d4"],
      [["r1", "r2", "r2"], "d3"],
    ] as const) {
      const fleet = new TestFleet({
        hosts: racks.map((rack, index) => aHost(`h${index + 1}`, { rack })),
        devices: racks.map((_, i) => aDevice(`d${i + 1}`, { hostId: hostId(`h${i + 1}`), diskId: i < 2 ? x : "" })),
        disks: [aDisk("x", ["d1", "d2"], { requested })],
      });
      fleet.transact((tx) => replaceDevice(tx, x, deviceId("d1"), 9));
      expect(toTry(fleet).target.deviceId).to.equal(expected);
    }
  });

  it("whatever happens in which order, one copy of the part counts, and each device of a copy is the disk's", () => {
    const random = seeded(7);
    for (let round = 0; round < 100; round++) {
      const fleet = scene({}, [aDevice("d3", { hostId: h3 })]);
      const seen: (Copying | Mirroring)[] = [];
      for (let step = 0; step < 30; step++) {
        const acts: (() => void)[] = [
          () => fleet.transact((tx) => migrateDisk(tx, x, "", step)),
          () => fleet.transact((tx) => cancelDiskMoves(tx, x)),
          () => requestAnything(fleet, random),
          () => settle(fleet),
          () => advance(fleet, seen),
          () => advance(fleet, seen),
          () => void (seen.length > 0 && complete(fleet, seen[Math.floor(random() * seen.length)] as Copying)),
          () => seen.length > 0 && fleet.transact((tx) => failTry(tx, seen.at(-1) as Copying, "no")),
        ];
        acts[Math.floor(random() * acts.length)]?.();
        check(fleet, fleet.disk("x"));
      }
    }
  });

  it("is neither published nor moved while an agent remembers the disk on a device that is not the disk's", () => {
    const unknownSession = { sessionNumber: 500, diskId: x };
    const forgotten = aDevice("d3", { hostId: h3, dirty: true, unknownSession });
    const fleet = scene({}, [forgotten]);
    expect(() => fleet.transact((tx) => requestPublish(tx, x, h3))).to.throw(InvalidStateError, /moved or grown/);
    expect(diskHealth(fleet.tables, fleet.disk("x"))).to.deep.include({ health: "ERROR" });
    fleet.transact((tx) => moveAway(tx, [fleet.device("d1")], 1));
    fleet.transact((tx) => beginTarget(tx, planMove(tx, x) as Moving, [fleet.device("d2")]));
    expect(planMove(fleet.tables, x)).to.deep.include({ kind: "wait" });
    fleet.transact((tx) => decideUnknown(tx, [forgotten.deviceId], "registry"));
    expect(planMove(fleet.tables, x)).to.deep.include({ kind: "begin" });
    publish(fleet);
    expect(fleet.disk("x").publication?.state).to.equal("PUBLISHED");
  });
});

function advance(fleet: TestFleet, seen: (Copying | Mirroring)[]): void {
  const step = planMove(fleet.tables, x);
  if (step.kind === "copy" || step.kind === "mirror") seen.push(step);
  if (step.kind === "begin") fleet.transact((tx) => beginTry(tx, x));
  if (step.kind !== "choose") return;
  const chosen = chooseTarget(fleet.tables, step, choice);
  if ("spaces" in chosen) fleet.transact((tx) => beginTarget(tx, step, chosen.spaces));
}

function requestAnything(fleet: TestFleet, random: () => number): void {
  if (random() < 0.5) fleet.transact((tx) => requestUnpublish(tx, x, undefined));
  else if (fleet.disk("x").publication === undefined) fleet.transact((tx) => requestPublish(tx, x, h1));
}

function check(fleet: TestFleet, disk: Disk): void {
  expect(countingDevices(disk)).to.have.length(1);
  const ours = [...fleet.tables.devices.entries()]
    .filter((device) => holds(device, x))
    .map((device) => device.deviceId);
  expect(ours).to.have.members([...allDevices(disk)]);
  // The last host may still say how far it was in its target's session.
  if (disk.publication?.state === "UNPUBLISHING") return;
  for (const { copies } of disk.parts)
    for (const { state, sessionNumber } of copies) {
      if (state !== "COPYING" || sessionNumber === undefined) continue;
      const publication = disk.publication?.sessionNumber ?? 0;
      expect(sessionNumber, "a try is younger than every session of the disk before").to.be.above(publication);
    }
}

function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
