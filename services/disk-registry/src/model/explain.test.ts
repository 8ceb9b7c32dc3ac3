import { expect } from "chai";
import { aDevice, aDisk, aHost, deviceId, diskId, hostId, TestFleet } from "../testing/fleet-fixture.js";
import type { Known, Subject } from "./cause.js";
import { causesOf } from "./explain.js";
import type { Device, Disk, Host, Publication } from "./schema.js";
import { noteMassSilence } from "./vigil.js";

const [h1, h2] = [hostId("h1"), hostId("h2")];
const HOST: Subject = { kind: "HOST", name: h1 };
const DEVICE: Subject = { kind: "DEVICE", name: deviceId("d1") };
const DISK: Subject = { kind: "DISK", name: diskId("x") };
const POOL: Subject = { kind: "POOL", name: "default" };
const VM: Subject = { kind: "VM", name: "vm-1" };
const OTHER_HOST: Subject = { kind: "HOST", name: h2 };

const known = (fields: Partial<Known> = {}): Known => ({
  whySuspected: () => undefined,
  lastHeardAtMs: () => 500,
  refusalOf: () => undefined,
  progressOf: () => ({ nextAttemptAtMs: 900, erasedBytes: 16 * 2 ** 20, pending: undefined }),
  standsStill: undefined,
  serialNumbersOfMany: new Set(),
  ...fields,
});
const suspects: Partial<Known> = { whySuspected: (id) => (id === h1 ? "host h1 is suspected" : undefined) };
const refusedAt = (lastAtMs: number): Partial<Known> => ({
  refusalOf: (id) =>
    id === h1 ? { message: "somebody at ADDRESS is turned away: why", sinceMs: 550, lastAtMs } : undefined,
});
const word = { by: "operator ada", atMs: 300, reason: "no power" };
const published = (state: Publication["state"], fields: Partial<Publication> = {}): Publication => ({
  hostId: h2,
  state,
  sessionNumber: 7,
  exportPath: "",
  attempts: 2,
  lastError: "timed out",
  ...fields,
});

interface Scene {
  readonly host?: Partial<Host>;
  readonly device?: Partial<Device>;
  readonly disk?: Partial<Disk>;
  readonly known?: Partial<Known>;
  readonly isMass?: boolean;
}

interface Expected {
  readonly reason: string;
  readonly says: RegExp;
  readonly sinceMs?: number;
  readonly nextTryAtMs?: number;
  readonly becauseOf?: readonly Subject[];
  /** Of the cures that are commands. */
  readonly commands?: readonly string[];
}

const NO_ROOM = { reason: "POOL_ROOM", commands: ["diskmesh disks"] };

/** What is so -> what is said of it. Host h1 has device d1, on which disk x lies, if there is one. */
const ROWS: readonly [cause: string, subject: Subject, scene: Scene, expected: readonly Expected[]][] = [
  ["all is well", HOST, {}, []],
  ["all is well", DEVICE, {}, []],
  ["all is well", DISK, { disk: { publication: published("PUBLISHED") } }, []],
  [
    "an operator said DEAD",
    HOST,
    { host: { state: "DEAD", saidDead: word } },
    [
      {
        reason: "SAID_DEAD",
        says: /operator ada \(no power\) said that host h1 is dead/,
        sinceMs: 300,
        commands: ["diskmesh set-host-state online h1", "diskmesh fence-host h1 --reason WHY"],
      },
    ],
  ],
  [
    "its agent is silent",
    HOST,
    { host: { state: "UNAVAILABLE" } },
    [
      {
        reason: "AGENT_SILENT",
        says: /nothing is heard of the agent of host h1/,
        sinceMs: 500,
        commands: ["diskmesh fence-host h1 --reason WHY", "diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "heartbeats are missed",
    HOST,
    { known: suspects },
    [{ reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 }],
  ],
  [
    "it is silent, and somebody was refused in its name since",
    HOST,
    { host: { state: "UNAVAILABLE" }, known: refusedAt(600) },
    [
      {
        reason: "AGENT_REFUSED",
        says: /nothing is heard of the agent of host h1, and somebody at ADDRESS is turned away: why/,
        sinceMs: 550,
      },
      {
        reason: "AGENT_SILENT",
        says: /nothing is heard/,
        sinceMs: 500,
        commands: ["diskmesh fence-host h1 --reason WHY", "diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "heartbeats are missed, and somebody was refused in its name since",
    HOST,
    { known: { ...suspects, ...refusedAt(600) } },
    [
      { reason: "AGENT_REFUSED", says: /turned away/, sinceMs: 550 },
      { reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 },
    ],
  ],
  [
    "somebody was refused in its name before it was heard last",
    HOST,
    { known: { ...suspects, ...refusedAt(500) } },
    [{ reason: "HEARTBEATS_MISSED", says: /suspected/, sinceMs: 500 }],
  ],
  ["it is heard, and a stranger was refused in its name", HOST, { known: refusedAt(600) }, []],
  [
    "it is said to be dead, and somebody was refused in its name",
    HOST,
    { host: { state: "DEAD", saidDead: word }, known: refusedAt(600) },
    [
      {
        reason: "SAID_DEAD",
        says: /is dead/,
        sinceMs: 300,
        commands: ["diskmesh set-host-state online h1", "diskmesh fence-host h1 --reason WHY"],
      },
    ],
  ],
  [
    "it was never heard, and somebody is refused in its name",
    { kind: "HOST", name: hostId("h9") },
    {
      known: {
        lastHeardAtMs: () => undefined,
        refusalOf: () => ({ message: "somebody is turned away", sinceMs: 550, lastAtMs: 600 }),
      },
    },
    [{ reason: "AGENT_REFUSED", says: /agent of host h9, and somebody/, sinceMs: 550 }],
  ],
  [
    "most hosts are silent",
    HOST,
    { known: suspects, isMass: true },
    [
      {
        reason: "MASS_SILENCE",
        says: /so are most others/,
        sinceMs: 500,
        commands: ["diskmesh set-host-state dead h1 --reason WHY"],
      },
    ],
  ],
  [
    "it came back",
    HOST,
    { host: { state: "WARNING", probationEndsAtMs: 800, stateChangedAtMs: 700 } },
    [{ reason: "ON_PROBATION", says: /is back/, sinceMs: 700, nextTryAtMs: 800 }],
  ],
  [
    "its agent cannot write",
    HOST,
    { host: { state: "WARNING", agentWarning: "its agent can take no order: disk full" } },
    [{ reason: "AGENT_TAKES_NOTHING_NEW", says: /disk full/ }],
  ],
  ["it must register", HOST, { host: { mustRegister: true } }, [{ reason: "MUST_REGISTER", says: /registered again/ }]],
  [
    "another registry leads",
    HOST,
    { known: { standsStill: "another registry leads this fleet" } },
    [{ reason: "STANDS_STILL", says: /another registry leads/ }],
  ],
  [
    "ids of other hosts' devices",
    HOST,
    { host: { foreignDevices: [{ deviceId: deviceId("d9"), hostId: h2 }] } },
    [{ reason: "FOREIGN_DEVICES", says: /d9 is the id of a device of host h2/, becauseOf: [OTHER_HOST] }],
  ],
  [
    "to be removed with a disk on it",
    HOST,
    { host: { removalRequested: true }, disk: {} },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /to be removed, and 1 device is not out of operation/,
        becauseOf: [DEVICE],
        commands: ["diskmesh remove-host h1 --wait", "diskmesh add-host h1"],
      },
    ],
  ],
  [
    "to be removed while it is a VM and serves a disk",
    HOST,
    {
      host: { removalRequested: true, assignment: { vmCid: "vm-1", assignedAtMs: 0 } },
      device: { attachState: "DETACHED", detachConfirmed: true, hostId: h2 },
      disk: { publication: published("PUBLISHED", { hostId: h1 }) },
    },
    [
      {
        reason: "REMOVAL_WAITS",
        says: /and it serves 1 disk \(x\), it is VM vm-1$/,
        becauseOf: [DISK, VM],
        commands: ["diskmesh remove-host h1 --wait", "diskmesh add-host h1"],
      },
    ],
  ],
  [
    "nobody has added a device",
    POOL,
    { device: { attachState: "UNKNOWN" } },
    [
      {
        ...NO_ROOM,
        says: /^of pool default 0 bytes are free, \d+ \wiB on devices that nobody has added$/,
        commands: ["diskmesh add-host h1", "diskmesh disks"],
      },
    ],
  ],
  ["a device is free", POOL, {}, [{ ...NO_ROOM, says: /^of pool default \d+ \wiB are free$/ }]],
  [
    "a disk lies on it",
    POOL,
    { disk: {} },
    [{ ...NO_ROOM, says: /^of pool default 0 bytes are free, \d+ \wiB in use$/ }],
  ],
  ["it is to be erased", POOL, { device: { dirty: true } }, [{ ...NO_ROOM, says: /\d+ \wiB to be erased first$/ }]],
  [
    "its drive is broken",
    POOL,
    { device: { health: "ERROR" } },
    [{ ...NO_ROOM, says: /\d+ \wiB where nothing new goes now$/ }],
  ],
  [
    "its host is away",
    POOL,
    { host: { state: "UNAVAILABLE" } },
    [{ ...NO_ROOM, says: /\d+ \wiB where nothing new goes now$/, becauseOf: [HOST] }],
  ],
  [
    "nobody added it",
    DEVICE,
    { device: { attachState: "UNKNOWN", detachConfirmed: true } },
    [{ reason: "NOT_ADDED", says: /nobody has added device d1/, sinceMs: 0, commands: ["diskmesh add-host h1"] }],
  ],
  [
    "its agent does not answer the order",
    DEVICE,
    { device: { attachState: "ATTACHING", generation: 9, attempts: 3, lastError: "timed out", stateChangedAtMs: 600 } },
    [
      {
        reason: "ORDER_PENDING",
        says: /is to hold device d1 \(generation 9\) after 3 failed tries: timed out/,
        sinceMs: 600,
        nextTryAtMs: 900,
        becauseOf: [HOST],
      },
    ],
  ],
  [
    "a detach hangs in the operating system",
    DEVICE,
    {
      device: {
        attachState: "CLOSING",
        pending: { message: "2 operations are not answered", sinceMs: 650, inFlightOperations: 2 },
      },
    },
    [
      {
        reason: "ORDER_PENDING",
        says: /is to let go of device d1 .*: 2 operations are not answered/,
        sinceMs: 650,
        nextTryAtMs: 900,
        becauseOf: [HOST],
      },
    ],
  ],
  [
    "its host is not asked",
    DEVICE,
    { device: { attachState: "ATTACHING" }, host: { state: "UNAVAILABLE" } },
    [{ reason: "ORDER_PENDING", says: /UNAVAILABLE/, sinceMs: 0, nextTryAtMs: 900, becauseOf: [HOST] }],
  ],
  [
    "its hardware failed once",
    DEVICE,
    {
      device: {
        health: "ERROR",
        healthMessage: "EIO",
        keptHealth: {
          hardwareError: { message: "EIO", atMs: 400 },
          reported: { health: "ONLINE", healthMessage: "" },
        },
      },
    },
    [
      {
        reason: "UNHEALTHY",
        says: /in ERROR: EIO/,
        sinceMs: 400,
        commands: ["diskmesh set-device-state online d1"],
      },
    ],
  ],
  [
    "its file is too short",
    DEVICE,
    { device: { health: "ERROR", healthMessage: "too short" } },
    [{ reason: "UNHEALTHY", says: /too short/ }],
  ],
  [
    "it is being erased",
    DEVICE,
    { device: { dirty: true } },
    [{ reason: "TO_BE_ERASED", says: /\(25 % so far\)/, nextTryAtMs: 900, becauseOf: [HOST] }],
  ],
  [
    "an unknown disk may be on it",
    DEVICE,
    { device: { unknownSession: { sessionNumber: 8, diskId: diskId("lost") } } },
    [{ reason: "HELD_BY_UNKNOWN_DISK", says: /session 8 of device d1 for disk lost/ }],
  ],
  ["it is gone", DEVICE, { device: { missing: true } }, [{ reason: "NOT_REPORTED", says: /does not find device d1/ }]],
  [
    "a disk lies on it, and it is to be removed",
    DEVICE,
    { device: { removalRequested: true, removalRequestedAtMs: 450 }, disk: {} },
    [{ reason: "REMOVAL_WAITS", says: /disk x lies on it/, sinceMs: 450, becauseOf: [DISK] }],
  ],
  [
    "it was fenced, and nobody has asked for it since",
    DISK,
    { disk: { fence: { hostId: h2, ...word } } },
    [
      {
        reason: "FENCED",
        says: /disk x was taken from host h2 by operator ada \(no power\), and is served nowhere/,
        sinceMs: 300,
        becauseOf: [OTHER_HOST],
      },
    ],
  ],
  [
    "it is not served yet",
    DISK,
    { disk: { publication: published("PUBLISHING") } },
    [
      {
        reason: "PUBLICATION_PENDING",
        says: /host h2 does not serve disk x yet, in session 7, after 2 tries: timed out/,
        becauseOf: [OTHER_HOST, DEVICE],
      },
    ],
  ],
  [
    "a fence waits for a device of a silent host",
    DISK,
    {
      host: { state: "UNAVAILABLE" },
      disk: { publication: published("UNPUBLISHING"), fence: { ...word, hostId: h2 } },
    },
    [
      {
        reason: "UNPUBLICATION_PENDING",
        says: /taken from host h2 \(fenced by operator ada: no power\)/,
        sinceMs: 300,
        becauseOf: [DEVICE, OTHER_HOST],
      },
      { reason: "DEVICE_IN_TROUBLE", says: /not asked: .*UNAVAILABLE/, becauseOf: [DEVICE, HOST] },
    ],
  ],
  [
    "its device is in error",
    DISK,
    { disk: {}, device: { health: "ERROR" } },
    [{ reason: "DEVICE_IN_TROUBLE", says: /device d1, which is in ERROR/, becauseOf: [DEVICE] }],
  ],
];

describe("why", () => {
  for (const [cause, subject, scene, expected] of ROWS)
    it(`${subject.kind}: ${cause} -> ${expected.map(({ reason }) => reason).join(", ") || "no cause"}`, () => {
      const fleet = new TestFleet({
        hosts: [aHost("h1", scene.host), aHost("h2")],
        devices: [aDevice("d1", { ...(scene.disk !== undefined && { diskId: diskId("x") }), ...scene.device })],
        disks: scene.disk === undefined ? [] : [aDisk("x", ["d1"], scene.disk)],
      });
      if (scene.isMass) fleet.transact((tx) => noteMassSilence(tx, true, 1));
      const found = causesOf(fleet.tables, subject, known(scene.known));
      expect(found.map(({ reason }) => reason)).to.deep.equal(expected.map(({ reason }) => reason));
      for (const [index, { says, commands = [], ...rest }] of expected.entries()) {
        const { message, cures = [], subject: of, ...told } = found[index] as (typeof found)[number];
        expect(of).to.deep.equal(subject);
        expect(message).to.match(says);
        expect(cures.map(([, command]) => command).filter(Boolean)).to.deep.equal(commands);
        const set = Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined));
        expect(set).to.deep.equal({ ...(told.becauseOf === undefined ? {} : { becauseOf: [] }), ...rest });
      }
    });
});
