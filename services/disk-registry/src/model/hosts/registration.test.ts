import { AbortedError, InvalidStateError } from "@diskmesh/domain";
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
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { limits, NOW_MS, register, registration, reported } from "../../testing/registrations.js";
import { completeErase } from "../devices/erase.js";
import type { ReportedDevice } from "../devices/reported-devices.js";
import { NO_SHARED_SERIAL_NUMBERS } from "../devices/same-bytes.js";
import { diskHealth } from "../disks/disks.js";
import { addDevice } from "./add-action.js";
import { confirmDevice } from "./confirm-action.js";
import { applyHeartbeat, requireRegistered } from "./heartbeats.js";
import { purgeDevice } from "./purge-action.js";
import {
  type LastRegistrations,
  noteRegistration,
  registerAgent,
  requireInOrder,
  requireNotReplaced,
} from "./registration.js";

interface Row {
  readonly cause: string;
  readonly known?: DeviceFields;
  readonly reported: Partial<ReportedDevice>;
  readonly listed: "allowed" | "unknown";
  readonly generation: number;
  readonly reason?: string;
  readonly effect: DeviceFields;
}

const bigger = { sizeBytes: 128 * MIB };

const rows: readonly Row[] = [
  {
    cause: "a device nobody knew",
    reported: {},
    listed: "unknown",
    generation: 101,
    reason: "AddHost or AddDevice",
    effect: { attachState: "UNKNOWN", generation: 101, dirty: true, detachConfirmed: false },
  },
  {
    cause: "an UNKNOWN device again",
    known: { attachState: "UNKNOWN", generation: 9 },
    reported: {},
    listed: "unknown",
    generation: 9,
    effect: { attachState: "UNKNOWN", generation: 9 },
  },
  {
    cause: "ATTACHED and held",
    known: { generation: 9 },
    reported: {},
    listed: "allowed",
    generation: 9,
    effect: { attachState: "ATTACHED", generation: 9 },
  },
  {
    cause: "ATTACHED and not held",
    known: { generation: 9 },
    reported: { attached: false },
    listed: "allowed",
    generation: 101,
    effect: { attachState: "ATTACHING", generation: 101 },
  },
  {
    cause: "ATTACHING and held: only an order confirms",
    known: { attachState: "ATTACHING", generation: 9 },
    reported: {},
    listed: "allowed",
    generation: 9,
    effect: { attachState: "ATTACHING", generation: 9 },
  },
  {
    cause: "CLOSING and held",
    known: { attachState: "CLOSING", generation: 9 },
    reported: {},
    listed: "unknown",
    generation: 9,
    reason: "being taken out",
    effect: { attachState: "CLOSING", generation: 9 },
  },
  {
    cause: "CLOSING and not held: only an order confirms",
    known: { attachState: "CLOSING", generation: 9 },
    reported: { attached: false },
    listed: "unknown",
    generation: 9,
    effect: { attachState: "CLOSING" },
  },
  {
    cause: "DETACHED and not held",
    known: { attachState: "DETACHED", generation: 9, detachConfirmed: true },
    reported: { attached: false },
    listed: "unknown",
    generation: 9,
    reason: "was taken out",
    effect: { attachState: "DETACHED", detachConfirmed: true },
  },
  {
    cause: "DETACHED, but held after all",
    known: { attachState: "DETACHED", generation: 9, detachConfirmed: true },
    reported: {},
    listed: "unknown",
    generation: 9,
    effect: { attachState: "DETACHED", detachConfirmed: false },
  },
  {
    cause: "an unreadable serial number",
    known: { generation: 9 },
    reported: { serialNumber: "" },
    listed: "allowed",
    generation: 9,
    effect: { attachState: "ATTACHED", health: "ONLINE", serialNumber: "serial-d1" },
  },
  {
    cause: "another path",
    known: { generation: 9 },
    reported: { path: "/dev/moved" },
    listed: "allowed",
    generation: 9,
    effect: { attachState: "ATTACHED", path: "/dev/moved" },
  },
  {
    cause: "in error",
    known: { generation: 9 },
    reported: { health: "ERROR", healthMessage: "EIO", attached: false },
    listed: "allowed",
    generation: 101,
    effect: { attachState: "ATTACHING", health: "ERROR", healthMessage: "EIO" },
  },
  {
    cause: "well again",
    known: { generation: 9, health: "ERROR", healthMessage: "EIO" },
    reported: {},
    listed: "allowed",
    generation: 9,
    effect: { health: "ONLINE", healthMessage: "" },
  },
  {
    cause: "shrunk, with a disk",
    known: { generation: 9, diskId: diskId("x") },
    reported: { sizeBytes: 32 * MIB },
    listed: "allowed",
    generation: 101,
    effect: { attachState: "ATTACHING", health: "ERROR", sizeBytes: 64 * MIB, diskId: diskId("x") },
  },
  {
    cause: "grown, with a disk",
    known: { generation: 9, diskId: diskId("x") },
    reported: { ...bigger, health: "WARNING", healthMessage: "has grown" },
    listed: "allowed",
    generation: 9,
    effect: { attachState: "ATTACHED", health: "WARNING", sizeBytes: 64 * MIB, grownToBytes: 128 * MIB },
  },
  {
    cause: "grown, and nothing tells that it is the same",
    known: { generation: 9, serialNumber: "" },
    reported: { ...bigger, serialNumber: "" },
    listed: "allowed",
    generation: 101,
    effect: { attachState: "ATTACHING", health: "ERROR", sizeBytes: 64 * MIB },
  },
  {
    cause: "other size, UNKNOWN",
    known: { attachState: "UNKNOWN", generation: 9, dirty: false },
    reported: bigger,
    listed: "unknown",
    generation: 9,
    effect: { sizeBytes: 128 * MIB, dirty: true, health: "ONLINE" },
  },
  {
    cause: "other serial number, DETACHED",
    known: { attachState: "DETACHED", generation: 9 },
    reported: { serialNumber: "new" },
    listed: "unknown",
    generation: 9,
    effect: { serialNumber: "new", dirty: true },
  },
  {
    cause: "missing, so that its size is unknown",
    known: { generation: 9, diskId: diskId("x") },
    reported: { sizeBytes: 0, health: "ERROR", healthMessage: "ENOENT", attached: false },
    listed: "allowed",
    generation: 101,
    effect: { attachState: "ATTACHING", health: "ERROR", healthMessage: "ENOENT", sizeBytes: 64 * MIB },
  },
  {
    cause: "found after its size was unknown",
    known: { generation: 9, attachState: "ATTACHING", sizeBytes: 0, health: "ERROR" },
    reported: {},
    listed: "allowed",
    generation: 9,
    effect: { attachState: "ATTACHING", health: "ONLINE", sizeBytes: 64 * MIB },
  },
  {
    cause: "of another host",
    known: { hostId: hostId("h2"), generation: 9 },
    reported: {},
    listed: "unknown",
    generation: 101,
    reason: "belongs to host h2",
    effect: { hostId: hostId("h2"), attachState: "ATTACHED", generation: 9 },
  },
];

// A drive of the same size may have replaced the known one.
const nameless = { serialNumber: "" };
const asFile = (fileIdentity: string) => ({ serialNumber: "", fileIdentity });
const detached: DeviceFields = { attachState: "DETACHED", detachConfirmed: true };
const notHeld = { attached: false };
const swapRows: [
  string,
  DeviceFields,
  Partial<ReportedDevice>,
  "same start" | "new start",
  "clean" | "dirty" | "to be confirmed",
][] = [
  ["DETACHED, the same serial number", detached, notHeld, "new start", "clean"],
  [
    "DETACHED, the same file",
    { ...detached, ...asFile("b 1") },
    { ...notHeld, ...asFile("b 1") },
    "new start",
    "clean",
  ],
  [
    "DETACHED, another file",
    { ...detached, ...asFile("b 1") },
    { ...notHeld, ...asFile("b 2") },
    "same start",
    "dirty",
  ],
  [
    "DETACHED, and the machine has booted since",
    { ...detached, ...asFile("one 1") },
    { ...notHeld, ...asFile("two 1") },
    "new start",
    "dirty",
  ],
  [
    "DETACHED, with nothing to tell it by",
    { ...detached, ...nameless },
    { ...notHeld, ...nameless },
    "same start",
    "dirty",
  ],
  ["UNKNOWN, with nothing to tell it by", { attachState: "UNKNOWN", ...nameless }, nameless, "same start", "dirty"],
  ["CLOSING, with nothing to tell it by", { attachState: "CLOSING", ...nameless }, nameless, "same start", "dirty"],
  ["ATTACHING, with nothing to tell it by", { attachState: "ATTACHING", ...nameless }, nameless, "same start", "dirty"],
  ["held all the time, with nothing to tell it by", nameless, nameless, "same start", "clean"],
  ["ATTACHED and not held, with nothing to tell it by", nameless, { ...notHeld, ...nameless }, "same start", "dirty"],
  ["held again by a new start, with nothing to tell it by", nameless, nameless, "new start", "dirty"],
  ["held again by a new start, the same file", asFile("b 1"), asFile("b 1"), "new start", "clean"],
  ["held after the machine has booted", asFile("one 1"), asFile("two 1"), "new start", "to be confirmed"],
  [
    "the same, with a disk on it",
    { ...asFile("one 1"), diskId: diskId("x") },
    asFile("two 1"),
    "new start",
    "to be confirmed",
  ],
  ["a file after the machine has booted", asFile("one file 8:7:5"), asFile("two file 9:7:5"), "new start", "clean"],
  ["not looked at after the machine has booted", asFile("one 1"), { ...notHeld, ...nameless }, "new start", "dirty"],
  ["held all the time, whatever it is called now", asFile("one 1"), asFile("two 1"), "same start", "clean"],
  ["other hardware found while it is in operation", {}, { serialNumber: "new" }, "same start", "clean"],
];

describe("the order of registrations", () => {
  it("refuses an older one of the same start, and accepts those of other starts and of agents without numbers", () => {
    const last: LastRegistrations = new Map();
    const come = (registrationNumber: number, bootId = "boot-1") => {
      const from = registration([], { registrationNumber, bootId });
      requireInOrder(last, from);
      noteRegistration(last, from);
    };
    come(1);
    come(3);
    expect(() => come(2)).to.throw(AbortedError, "registration 2 of host h1 arrived after registration 3");
    // A retried call carries the same registration number.
    come(3);
    come(1, "boot-2");
    come(0, "boot-2");
  });
});

describe("a start of an agent that another one has replaced", () => {
  const comesBack = (isInPlace: boolean) => {
    const fleet = new TestFleet({ hosts: [aHost("h1", { bootId: "later", formerBootIds: ["earlier"] })] });
    requireNotReplaced(fleet.tables, registration([], { bootId: "earlier" }), () => isInPlace);
  };

  it("is refused while the later one is heard, and accepted once that is silent", () => {
    expect(() => comesBack(true)).to.throw(
      InvalidStateError,
      /two agents run as host h1: start earlier .* was replaced by start later/,
    );
    comesBack(false);
  });
});

describe("registration", () => {
  for (const [cause, known, found, start, effect] of swapRows)
    it(`a clean device, ${cause} -> ${effect}`, () => {
      const fleet = new TestFleet({ devices: [aDevice("d1", known)] });
      register(fleet, registration([reported("d1", found)], start === "new start" ? { bootId: "h1-boot-2" } : {}));
      const { replacement, dirty } = fleet.seen("d1");
      const isOther = cause.startsWith("other hardware");
      expect(replacement !== undefined).to.equal(isOther || effect === "to be confirmed");
      expect(dirty).to.equal(effect === "dirty");
    });

  const erased: readonly [string, DeviceFields, Partial<ReportedDevice>, string, number][] = [
    ["held all the time", nameless, nameless, "h1-boot-1", 7],
    ["held again by a new start, the same file", asFile("b 1"), asFile("b 1"), "h1-boot-2", 7],
    // The former start may have erased the former drive, and its answer may still arrive.
    ["held again by a new start, with nothing to tell it by", nameless, nameless, "h1-boot-2", 0],
  ];
  for (const [cause, known, found, bootId, session] of erased)
    it(`a device being erased, ${cause}: the erase ${session === 7 ? "continues" : "starts again"}`, () => {
      const fleet = new TestFleet({ devices: [aDevice("d1", { ...known, dirty: true, eraseSessionNumber: 7 })] });
      register(fleet, registration([reported("d1", found)], { bootId }));
      expect(fleet.seen("d1")).to.include({ dirty: true, eraseSessionNumber: session });
      fleet.transact((tx) => completeErase(tx, deviceId("d1"), 7));
      expect(fleet.seen("d1").dirty, "after the late answer").to.equal(session !== 7);
    });

  it("heartbeats of a silent host do not count after PurgeDevice, a registration does", () => {
    const hosts = [aHost("h1", { state: "UNAVAILABLE", stateMessage: "silent" })];
    const fleet = new TestFleet({ hosts, devices: [aDevice("d1")] });
    fleet.transact((tx) => purgeDevice(tx, { deviceId: deviceId("d1") }, false, NOW_MS));
    expect(() => requireRegistered(fleet.tables, hostId("h1"), "h1-boot-1")).to.throw(AbortedError);
    const answer = register(fleet, registration([reported("d1")]));
    expect(answer.unknown.map((device) => device.deviceId)).to.deep.equal(["d1"]);
    expect(requireRegistered(fleet.tables, hostId("h1"), "h1-boot-1").state).to.equal("ONLINE");
  });

  for (const row of rows) {
    it(`${row.cause} -> ${row.listed} with generation ${row.generation}`, () => {
      const devices = row.known === undefined ? [] : [aDevice("d1", row.known)];
      const fleet = new TestFleet({ hosts: [aHost("h1"), aHost("h2")], devices });
      const answer = register(fleet, registration([reported("d1", row.reported)]));
      const { [row.listed]: listed, [row.listed === "allowed" ? "unknown" : "allowed"]: other } = answer;
      expect(other).to.deep.equal([]);
      expect(listed.length).to.equal(1);
      expect(listed[0]?.stamp).to.deep.equal({ ...leader, deviceGeneration: row.generation });
      expect(listed[0]?.reason).to.contain(row.reason ?? "");
      expect(listed[0]?.reason === "").to.equal(row.listed === "allowed");
      expect(fleet.seen("d1")).to.deep.include(row.effect);
    });
  }

  it("a registration without news writes nothing, so that many agents at once cost no commit", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2", { attachState: "UNKNOWN" })] });
    const same = registration([reported("d1"), reported("d2")]);
    expect(fleet.changes((tx) => registerAgent(tx, same, leader, limits, NOW_MS))).to.equal(0);
  });

  it("a first registration makes an ONLINE host; that of a silent host makes it ONLINE again, with its VM and wish", () => {
    const fresh = new TestFleet({ hosts: [] });
    register(fresh, registration([]));
    expect(fresh.host("h1")).to.include({ state: "ONLINE", az: "z1", createdAtMs: NOW_MS });
    const assignment = { vmCid: "vm-1", assignedAtMs: 3 };
    const back = new TestFleet({
      hosts: [aHost("h1", { state: "UNAVAILABLE", stateMessage: "silent", removalRequested: true, assignment })],
    });
    register(back, registration([], { bootId: "boot-2" }));
    expect(back.host("h1")).to.deep.include({
      state: "ONLINE",
      stateMessage: "",
      bootId: "boot-2",
      removalRequested: true,
      assignment,
    });
  });

  it("drives without serial numbers that swapped places at a reboot are not held or erased before ConfirmDevice", () => {
    const drive = (slot: number, boot = "one") => asFile(`${boot} block 8:${slot}:1`);
    const fleet = new TestFleet({
      devices: [aDevice("d1", { ...drive(1), diskId: diskId("x") }), aDevice("d2", drive(2))],
      disks: [aDisk("x", ["d1"])],
    });
    const found = (id: string, slot: number) => reported(id, { ...drive(slot, "two"), attached: false });
    const booted = registration([found("d1", 2), found("d2", 1)], { bootId: "h1-boot-2" });
    const { allowed } = register(fleet, booted);
    expect(allowed.map(({ expected }) => expected?.fileIdentity)).to.deep.equal(["one block 8:1:1", "one block 8:2:1"]);
    for (const id of ["d1", "d2"]) {
      expect(fleet.seen(id)).to.include({ attachState: "ATTACHING", health: "ERROR", dirty: false });
      expect(fleet.device(id).healthMessage).to.match(/cannot be identified .*ConfirmDevice/);
    }
    expect(diskHealth(fleet.tables, fleet.disk("x")).message).to.match(/d1 .*cannot be identified/);
    const call = { nowMs: NOW_MS, waitingRetryAfterMs: 10_000, acceptUnidentified: true };
    expect(() => fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d2") }, call))).to.throw(
      InvalidStateError,
      "d2 may be the drive of device d1, which is missing from its place and holds disk x",
    );
    const confirm = () =>
      fleet.transact((tx) =>
        confirmDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS }),
      );
    expect(confirm().code).to.equal("S_OK");
    expect(fleet.device("d1")).to.include({ ...drive(2, "two"), health: "ONLINE", attachState: "ATTACHING" });
    expect(fleet.device("d1").generation, "an answer to the order before counts no more").to.be.above(101);
    expect(confirm().code).to.equal("S_ALREADY");
    expect(fleet.changes((tx) => registerAgent(tx, booted, leader, limits, NOW_MS))).to.equal(0);
  });

  it("AddDevice accepts no file with a disk after files swapped places at a reboot", () => {
    const file = (inode: number, boot = "one") => asFile(`${boot} file 8:${inode}:5`);
    const fleet = new TestFleet({
      devices: [aDevice("d1", { ...file(1), diskId: diskId("x") }), aDevice("d2", file(2))],
      disks: [aDisk("x", ["d1"])],
    });
    const found = (id: string, inode: number) => reported(id, { ...file(inode, "two"), attached: false });
    register(fleet, registration([found("d1", 2), found("d2", 1)], { bootId: "h1-boot-2" }));
    const call = { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 };
    expect(() => fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d2") }, call))).to.throw(
      InvalidStateError,
      "d2 is the drive of device d1",
    );
  });

  it("ConfirmDevice refuses hardware that is proven to differ, and changes nothing", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", { diskId: diskId("x") })], disks: [aDisk("x", ["d1"])] });
    register(fleet, registration([reported("d1", { serialNumber: "other" })]));
    const before = fleet.device("d1");
    const confirm = () =>
      fleet.transact((tx) =>
        confirmDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, shared: NO_SHARED_SERIAL_NUMBERS }),
      );
    expect(confirm).to.throw(InvalidStateError, /serial number was "serial-d1", is "other"/);
    expect(fleet.device("d1")).to.equal(before);
  });

  it("one host too many is refused, and changes nothing", () => {
    const fleet = new TestFleet({ hosts: [aHost("a"), aHost("b"), aHost("c")] });
    expect(() => register(fleet, registration([reported("d1")]))).to.throw("hosts of a registry: purge dead hosts");
    expect(fleet.tables.hosts.size).to.equal(3);
    expect(fleet.tables.devices.size).to.equal(0);
  });

  it("a device that is no longer reported is forgotten when UNKNOWN, and in error and not ATTACHED when in operation", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1"), aDevice("d2", { attachState: "UNKNOWN" }), aDevice("d3", { attachState: "CLOSING" })],
    });
    register(fleet, registration([]));
    expect(fleet.device("d1")).to.include({ attachState: "ATTACHING", health: "ERROR", generation: 101 });
    expect(fleet.tables.devices.has("d2")).to.equal(false);
    expect(fleet.device("d3")).to.include({ attachState: "CLOSING", generation: 1 });
    const again = registration([]);
    expect(fleet.changes((tx) => registerAgent(tx, again, leader, limits, NOW_MS))).to.equal(0);
  });

  it("AddDevice accepts a device's grown size, as dirty, once no disk is on it", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", { diskId: diskId("x") })], disks: [aDisk("x", ["d1"])] });
    const add = () =>
      fleet.transact((tx) =>
        addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
      );
    register(fleet, registration([reported("d1", bigger)]));
    register(fleet, registration([reported("d1")]));
    expect(fleet.device("d1").grownToBytes, "cut back to what it was").to.equal(undefined);
    register(fleet, registration([reported("d1", bigger)]));
    expect(add().code).to.equal("S_ALREADY");
    expect(fleet.seen("d1")).to.include({ sizeBytes: 64 * MIB, attachState: "ATTACHED", dirty: false });
    fleet.transact((tx) => deletedNow(tx, diskId("x")));
    expect(add().code).to.equal("S_OK");
    expect(fleet.seen("d1")).to.include({ sizeBytes: 128 * MIB, attachState: "ATTACHING", dirty: true });
    expect(fleet.device("d1").grownToBytes).to.equal(undefined);
  });

  const smaller = { sizeBytes: 32 * MIB };

  it("replaced hardware without a disk is in ERROR until AddDevice, then dirty and ONLINE", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1")] });
    register(fleet, registration([reported("d1", smaller)]));
    expect(fleet.device("d1").healthMessage).to.contain("its size was").and.to.contain("AddDevice accepts");
    expect(
      fleet.transact((tx) =>
        addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
      ).code,
    ).to.equal("S_OK");
    expect(fleet.seen("d1")).to.include({
      sizeBytes: 32 * MIB,
      dirty: true,
      health: "ONLINE",
      attachState: "ATTACHING",
    });
    expect(fleet.device("d1").replacement).to.equal(undefined);
    register(fleet, registration([reported("d1", smaller)]));
    expect(fleet.device("d1").health).to.equal("ONLINE");
  });

  it("AddDevice refuses replaced hardware with a disk, and the former hardware is ONLINE when put back", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", { diskId: diskId("x") })], disks: [aDisk("x", ["d1"])] });
    register(fleet, registration([reported("d1", smaller)]));
    const call = { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 };
    expect(() => fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, call))).to.throw(
      InvalidStateError,
      "disk x is on it: put the former hardware back, or delete the disk",
    );
    expect(fleet.seen("d1")).to.include({ health: "ERROR", sizeBytes: 64 * MIB, dirty: false });
    register(fleet, registration([reported("d1")]));
    expect(fleet.device("d1")).to.include({ health: "ONLINE" });
    expect(fleet.device("d1").replacement).to.equal(undefined);
  });

  it("a device with a malformed report is in error alone, keeps its bytes, and no heartbeat makes it ONLINE", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1", { diskId: diskId("x") }), aDevice("d2"), aDevice("d3", { attachState: "UNKNOWN" })],
      disks: [aDisk("x", ["d1"])],
    });
    const refusedDevices = ["d1", "d3", "d4"].map((id) => ({ deviceId: deviceId(id), reason: "path is malformed" }));
    const malformed = registration([reported("d2")], { refusedDevices });
    const answer = register(fleet, malformed);
    expect(answer.allowed.map(({ deviceId: id }) => id)).to.deep.equal(["d2"]);
    expect(answer.unknown.map(({ deviceId: id, reason }) => [id, reason])).to.deep.equal([["d4", "path is malformed"]]);
    expect(fleet.seen("d1")).to.include({ health: "ERROR", attachState: "ATTACHING", diskId: "x", refused: true });
    expect(fleet.device("d1").healthMessage).to.contain("path is malformed");
    expect(fleet.device("d1").missing, "its agent has it: a fence asks for it").to.equal(undefined);
    expect(fleet.device("d2")).to.include({ health: "ONLINE", attachState: "ATTACHED" });
    expect(fleet.device("d3")).to.include({ health: "ERROR", attachState: "UNKNOWN" });
    expect(fleet.tables.devices.size).to.equal(3);
    const known = { ...malformed, refusedDevices: refusedDevices.slice(0, 2) };
    expect(fleet.changes((tx) => registerAgent(tx, known, leader, limits, NOW_MS))).to.equal(0);
    const well = { deviceId: deviceId("d1"), health: "ONLINE", healthMessage: "" } as const;
    const { bootId } = malformed;
    fleet.transact((tx) => applyHeartbeat(tx, malformed.hostId, bootId, { changed: [well] }, NOW_MS));
    expect(fleet.device("d1").health).to.equal("ERROR");
    register(fleet, registration(["d1", "d2", "d3"].map((id) => reported(id))));
    expect(fleet.device("d1")).to.include({ health: "ONLINE", attachState: "ATTACHING" });
    expect(fleet.device("d1").refused).to.equal(undefined);
  });
});
