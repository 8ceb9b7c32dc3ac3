import { InvalidStateError } from "@diskmesh/domain";
import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  type DeviceFields,
  deletedNow,
  deviceId,
  diskId,
  hostId,
  leader,
  remembered,
  type SeenDevice,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { allocate } from "../disks/allocation.js";
import { diskHealth } from "../disks/disks.js";
import { requestPublish, requestUnpublish } from "../disks/publications.js";
import { planSession } from "../disks/session-plan.js";
import { decideUnknown } from "../hosts/decide-unknown.js";
import { purgeDevice, purgeHost } from "../hosts/purge-action.js";
import { type RegistrationAnswer, registerAgent } from "../hosts/registration.js";
import { removeDevice } from "../hosts/remove-action.js";
import type { Disk } from "../store/schema.js";
import { skipValues } from "./counters.js";
import { beginErase } from "./erase.js";
import { planOrders } from "./orders.js";
import type { ReportedDevice } from "./reported-devices.js";
import { findUnknownSession } from "./unknown-disks.js";

const NOW_MS = 50_000;
const X = diskId("x");

describe("the session of a device that its agent remembers", () => {
  const inUse = { diskId: X };
  // Session 60 is the last session that was given; 61 to 1,000 were skipped.
  const rows: readonly [string, DeviceFields, Partial<Disk>, number, string | undefined, boolean][] = [
    ["none", {}, {}, 0, "", false],
    ["below the last, not recorded for the device", {}, {}, 60, "y", false],
    ["skipped, not recorded for the device", {}, {}, 61, "y", true],
    ["skipped, an erase", {}, {}, 61, "", true],
    ["as recorded", { lastSessionNumber: 40 }, {}, 40, "y", false],
    ["above what was recorded, though given elsewhere", { lastSessionNumber: 40 }, {}, 41, "y", true],
    ["above what was recorded, an erase", { lastSessionNumber: 40 }, {}, 41, "", true],
    ["above what was recorded, of the disk that is on it", { lastSessionNumber: 40, ...inUse }, {}, 41, "x", false],
    ["above what was recorded, of another disk than is on it", { lastSessionNumber: 40, ...inUse }, {}, 41, "y", true],
    [
      "as the last of the disk that is on it, of another one",
      { lastSessionNumber: 40, ...inUse },
      { lastSessionNumber: 50 },
      50,
      "y",
      true,
    ],
    [
      "as the last of the disk that is on it, of no told one",
      { lastSessionNumber: 40, ...inUse },
      { lastSessionNumber: 50 },
      50,
      undefined,
      false,
    ],
    [
      "above the last of the disk that is on it, of no told one",
      { lastSessionNumber: 40, ...inUse },
      { lastSessionNumber: 50 },
      51,
      undefined,
      true,
    ],
    ["skipped, of the disk that is on it", inUse, {}, 61, "x", false],
  ];
  for (const [title, device, disk, sessionNumber, sessionDiskId, isUnknown] of rows)
    it(`${title} -> ${isUnknown ? "unknown" : "known"}`, () => {
      const fleet = new TestFleet({ devices: [aDevice("d1", device)], disks: [aDisk("x", ["d1"], disk)], session: 60 });
      fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 1_000 }));
      const found = findUnknownSession(fleet.tables, fleet.device("d1"), {
        sessionNumber,
        sessionDiskId: sessionDiskId as SeenDevice["diskId"] | undefined,
      });
      expect(found).to.deep.equal(isUnknown ? { sessionNumber, diskId: sessionDiskId ?? "" } : undefined);
    });
});

it("sessions of disks on the device whose drive is there, and of no others, are known", () => {
  const labelId = "a".repeat(32);
  const owner = aDevice("d1", { hostId: hostId("h2"), diskId: X, label: { labelId } });
  const place = aDevice("d2", { foundLabel: { labelId, deviceId: deviceId("d1") } });
  const fleet = new TestFleet({ devices: [owner, place], disks: [aDisk("x", ["d1"])], session: 60 });
  const { sizeBytes } = place;
  const found = (id: string) => {
    const range = { offsetBytes: 0, sizeBytes, sessionNumber: 61, diskId: diskId(id) };
    return findUnknownSession(fleet.tables, place, { sessionNumber: 61, sessionDiskId: diskId(id), ranges: [range] });
  };
  expect(found("x")).to.equal(undefined);
  expect(found("y")).to.deep.equal({ sessionNumber: 61, diskId: "y" });
});

describe("a device that is held by an unknown disk", () => {
  const unknown = { sessionNumber: 500, sessionDiskId: diskId("stranger") };

  it("is not allocated, not erased, and dirty from now on, when free", () => {
    const fleet = marked({});
    expect(fleet.seen("d1")).to.deep.include({
      unknownSession: { sessionNumber: 500, diskId: "stranger" },
      dirty: true,
    });
    const request = { sizeBytes: 1, az: "z1", hostId: "", pool: "default", spreadRacks: false } as const;
    expect(allocate(fleet.tables, request, { maxDevices: 9, draw: 0 })).to.have.property("shortage");
    expect(fleet.transact((tx) => beginErase(tx, deviceId("d1")))).to.equal(undefined);
  });

  it("asks no agent for its published disk's session, and the disk shows the reason", () => {
    const publication = {
      hostId: hostId("h1"),
      state: "PUBLISHED",
      sessionNumber: 40,
      exportPath: "/x",
      attempts: 0,
      lastError: "",
    } as const;
    const fleet = marked({ diskId: X }, { publication, lastSessionNumber: 40 });
    const plan = planSession(fleet.tables, X);
    expect(plan?.groups).to.deep.equal([]);
    expect(plan?.blocked).to.contain("held by an unknown disk: its agent remembers session 500 for disk stranger");
    fleet.transact((tx) => requestUnpublish(tx, X, undefined));
    expect(planSession(fleet.tables, X)?.blocked).to.contain("held by an unknown disk");
    expect(diskHealth(fleet.tables, fleet.disk("x"))).to.deep.include({ health: "ERROR" });
  });

  it("prevents the publication of its disk", () => {
    const fleet = marked({ diskId: X });
    expect(() => fleet.transact((tx) => requestPublish(tx, X, hostId("h1")))).to.throw(
      InvalidStateError,
      "unknown disk",
    );
  });

  it("gets no order when the registry did not know the device", () => {
    const fleet = new TestFleet({ devices: [] });
    fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 1_000 }));
    const answer = register(fleet, unknown);
    expect([answer.allowed, answer.unknown]).to.deep.equal([[], []]);
    expect(orders(fleet)).to.equal(undefined);
    expect(fleet.device("d1")).to.deep.include({ attachState: "UNKNOWN", detachConfirmed: false });
  });

  it("is not closed, unless its data is to be kept", () => {
    expect(orders(marked({ attachState: "CLOSING" }))).to.equal(undefined);
    expect(orders(marked({ attachState: "CLOSING", keepData: true }))?.detach).to.have.length(1);
  });

  it("makes RemoveDevice answer the reason, and leaves with keep_data", () => {
    const fleet = marked({});
    const said = remove(fleet, false);
    expect(said).to.include({ code: "E_TRY_AGAIN" });
    expect(said.message).to.contain("has 1 device that is held by an unknown disk (DecideUnknownDisks): d1");
    expect(remove(fleet, true).message).to.contain("being closed");
  });

  it("stays marked when the agent forgets the session, or reports a lower one", () => {
    const fleet = marked({});
    register(fleet, { sessionNumber: 0, sessionDiskId: "" });
    expect(fleet.device("d1").unknownSession?.sessionNumber).to.equal(500);
  });

  it("has its unknown exports left alone, and known ones ended", () => {
    const fleet = new TestFleet({ devices: [], session: 60 });
    fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 1_000 }));
    const exports = [
      { diskId: diskId("stranger"), sessionNumber: 500 },
      { diskId: diskId("deleted"), sessionNumber: 59 },
    ];
    const answer = register(fleet, { sessionNumber: 0, sessionDiskId: "" }, exports);
    expect(answer.strayExports).to.deep.equal([exports[1]]);
    expect(answer.unknownExports).to.deep.equal([exports[0]]);
  });

  it("is erased or published after a decision for the registry, and not marked by the next registration", () => {
    const fleet = marked({ diskId: X });
    const decided = fleet.transact((tx) => decideUnknown(tx, [deviceId("d1")], "registry"));
    expect(decided).to.deep.equal({ deviceIds: ["d1"], diskIds: ["x"], endedDiskIds: ["stranger"] });
    expect(fleet.device("d1").unknownSession).to.equal(undefined);
    register(fleet, unknown);
    expect(fleet.device("d1").unknownSession).to.equal(undefined);
    fleet.transact((tx) => requestPublish(tx, X, hostId("h1")));
    expect(planSession(fleet.tables, X)?.blocked).to.equal(undefined);
    const free = marked({});
    free.transact((tx) => decideUnknown(tx, [deviceId("d1")], "registry"));
    expect(free.transact((tx) => beginErase(tx, deviceId("d1")))?.sessionNumber).to.be.above(1_000);
  });

  it("leaves its disk after a decision for the agent, stays marked, and is erased after one for the registry", () => {
    const fleet = marked({ diskId: X });
    const decide = (verdict: "agent" | "registry") =>
      fleet.transact((tx) => decideUnknown(tx, [deviceId("d1")], verdict));
    expect(decide("agent")).to.deep.equal({ deviceIds: ["d1"], diskIds: ["x"], endedDiskIds: [] });
    expect(fleet.seen("d1")).to.include({ diskId: "", dirty: true });
    expect(fleet.device("d1").unknownSession).not.to.equal(undefined);
    expect(diskHealth(fleet.tables, fleet.disk("x")).message).to.contain("d1 was purged");
    expect(decide("agent"), "again").to.deep.equal({ deviceIds: [], diskIds: [], endedDiskIds: [] });
    decide("registry");
    expect(fleet.transact((tx) => beginErase(tx, deviceId("d1")))).not.to.equal(undefined);
  });

  it("loses its mark when purged, and is not marked again", () => {
    const fleet = marked({});
    fleet.transact((tx) => purgeDevice(tx, { deviceId: deviceId("d1") }, false, NOW_MS));
    expect(fleet.device("d1").unknownSession).to.equal(undefined);
    register(fleet, unknown);
    expect(fleet.device("d1").unknownSession).to.equal(undefined);
  });

  it("is marked again when its host is purged after a decision, and registers anew", () => {
    const fleet = marked({});
    fleet.transact((tx) => decideUnknown(tx, [deviceId("d1")], "registry"));
    fleet.transact((tx) => purgeHost(tx, hostId("h1"), false));
    register(fleet, unknown);
    expect(fleet.device("d1").unknownSession?.sessionNumber).to.equal(500);
  });

  it("makes its disk's sessions count as given when purged with the disk", () => {
    const disks = [aDisk("x", ["d1"], { lastSessionNumber: 50 })];
    const fleet = new TestFleet({ devices: [aDevice("d1", { lastSessionNumber: 40, diskId: X })], disks, session: 60 });
    fleet.transact((tx) => purgeDevice(tx, { deviceId: deviceId("d1") }, true, NOW_MS));
    register(fleet, { sessionNumber: 50, sessionDiskId: X });
    expect(fleet.device("d1").unknownSession).to.equal(undefined);
  });

  /**
   * Returns a fleet with device d1 (and disk x, if given), after d1's agent reported a session that this registry never
   * gave.
   */
  function marked(device: DeviceFields, disk: Partial<Disk> = {}): TestFleet {
    const disks = device.diskId === undefined ? [] : [aDisk("x", ["d1"], disk)];
    const fleet = new TestFleet({ devices: [aDevice("d1", { lastSessionNumber: 40, ...device })], disks, session: 60 });
    fleet.transact((tx) => skipValues(tx, "session_number", { upTo: 1_000 }));
    register(fleet, unknown);
    return fleet;
  }

  function remove(fleet: TestFleet, keepData: boolean) {
    const limits = {
      unavailableRemovalTimeoutMs: 1,
      closingRetryAfterMs: 1,
      erasingRetryAfterMs: 1,
      waitingRetryAfterMs: 1,
      maxWaitingRetryAfterMs: 1,
    };
    const eraseState = () => ({ erasedBytes: 0, failedTries: 0 });
    return fleet.transact((tx) =>
      removeDevice(
        tx,
        { deviceId: deviceId("d1") },
        { keepData, limits, eraseState, moveProgressOf: () => undefined, nowMs: NOW_MS, listenedMs: 0 },
      ),
    );
  }
});

describe("the highest session given for a device", () => {
  it("outlives the disk that it was given for", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1", { diskId: X, lastSessionNumber: 40 })],
      disks: [aDisk("x", ["d1"], { lastSessionNumber: 55 })],
      session: 60,
    });
    fleet.transact((tx) => deletedNow(tx, X));
    expect(fleet.device("d1").lastSessionNumber).to.equal(55);
    const order = fleet.transact((tx) => beginErase(tx, deviceId("d1")));
    expect(fleet.device("d1").lastSessionNumber).to.equal(order?.sessionNumber).and.to.equal(61);
  });
});

function orders(fleet: TestFleet) {
  return planOrders(fleet.tables, hostId("h1"), { maxDevices: 9, isDue: () => true });
}

function register(
  fleet: TestFleet,
  session: { sessionNumber: number; sessionDiskId: SeenDevice["diskId"] },
  exports: readonly { diskId: ReturnType<typeof diskId>; sessionNumber: number }[] = [],
): RegistrationAnswer {
  const { path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool } = aDevice("d1");
  const { address, az, rack, bootId } = aHost("h1");
  const device: ReportedDevice = {
    deviceId: deviceId("d1"),
    ...{ path, offsetBytes, sizeBytes, blockSizeBytes, serialNumber, pool },
    health: "ONLINE",
    healthMessage: "",
    attached: true,
    ...session,
  };
  const registration = { hostId: hostId("h1"), address, az, rack, bootId, devices: [device], exports, remembered };
  return fleet.transact((tx) => registerAgent(tx, registration, leader, { maxHosts: 9 }, NOW_MS));
}
