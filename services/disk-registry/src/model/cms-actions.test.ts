import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  deviceId,
  diskId,
  type Fleet,
  hostId,
  MIB,
  TestFleet,
} from "../testing/fleet-fixture.js";
import type { ActionResult } from "./action-result.js";
import { addDevice, addHost } from "./add-action.js";
import { completeErase } from "./erase.js";
import { purgeDevice, purgeHost } from "./purge-action.js";
import { giveUpOnHost, type RemovalCall, type RemovalLimits, removeDevice, removeHost } from "./remove-action.js";
import type { Publication, RegistryTransaction } from "./schema.js";

const NOW_MS = 10_000_000;
const limits: RemovalLimits = {
  unavailableRemovalTimeoutMs: 3_600_000,
  closingRetryAfterMs: 1_000,
  erasingRetryAfterMs: 2_000,
  waitingRetryAfterMs: 10_000,
  maxWaitingRetryAfterMs: 300_000,
};
const h1 = hostId("h1");
const call = (keepData: boolean): RemovalCall => ({
  keepData,
  limits,
  // As an agent would say it of devices of these names.
  eraseState: ({ deviceId }) => ({
    erasedBytes: deviceId === "half" ? 32 * MIB : 0,
    failedTries: deviceId === "bad" ? 3 : 0,
  }),
  nowMs: NOW_MS,
});

type Act = (tx: RegistryTransaction) => ActionResult;
const actions = {
  addHost: (tx: RegistryTransaction) => addHost(tx, h1, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  addD1: (tx: RegistryTransaction) =>
    addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  addPath: (tx: RegistryTransaction) =>
    addDevice(tx, { hostId: h1, path: "/dev/shared" }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  addD1OfH2: (tx: RegistryTransaction) =>
    addDevice(tx, { hostId: hostId("h2"), deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }),
  removeHost: (tx: RegistryTransaction) => removeHost(tx, h1, call(false)),
  removeHostKeeping: (tx: RegistryTransaction) => removeHost(tx, h1, call(true)),
  removeD1: (tx: RegistryTransaction) => removeDevice(tx, { deviceId: deviceId("d1") }, call(false)),
  removeD1Keeping: (tx: RegistryTransaction) => removeDevice(tx, { deviceId: deviceId("d1") }, call(true)),
  removePath: (tx: RegistryTransaction) => removeDevice(tx, { hostId: h1, path: "/dev/shared" }, call(false)),
  purgeHost: (tx: RegistryTransaction) => purgeHost(tx, h1, false),
  purgeHostForce: (tx: RegistryTransaction) => purgeHost(tx, h1, true),
  purgeD1: (tx: RegistryTransaction) => purgeDevice(tx, { deviceId: deviceId("d1") }, false, NOW_MS),
  purgeD1Force: (tx: RegistryTransaction) => purgeDevice(tx, { deviceId: deviceId("d1") }, true, NOW_MS),
} satisfies Record<string, Act>;

const unknown = (id: string, more = {}) => aDevice(id, { attachState: "UNKNOWN", dirty: true, ...more });
const attached = (id: string, more = {}) => aDevice(id, more);
const held = (id: string, disk: string, more = {}) => aDevice(id, { diskId: diskId(disk), ...more });
const dirty = { dirty: true };
const onShared = { path: "/dev/shared" };
const publishedTo = (host: string, state: Publication["state"]): Publication => ({
  hostId: hostId(host),
  state,
  sessionNumber: 5,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
});
const silentSince = (stateChangedAtMs: number) => [
  aHost("h1", { state: "UNAVAILABLE", stateChangedAtMs, stateMessage: "silent" }),
];

interface Row {
  readonly cause: string;
  readonly fleet: Fleet;
  readonly action: keyof typeof actions;
  readonly code: ActionResult["code"];
  readonly says?: string;
  readonly dependent?: readonly string[];
  /** "state generation flags" by device after the action; null when it is gone. */
  readonly devices?: Readonly<Record<string, string | null>>;
  readonly wish?: boolean;
  readonly retryAfterMs?: number;
  /** "bytes erased / bytes to erase" in MiB. */
  readonly erase?: string;
  readonly unerased?: readonly string[];
}

const rows: readonly Row[] = [
  {
    cause: "AddHost with UNKNOWN devices",
    action: "addHost",
    code: "S_OK",
    fleet: { devices: [unknown("d1"), unknown("d2")] },
    devices: { d1: "ATTACHING 101 dirty", d2: "ATTACHING 102 dirty" },
  },
  {
    cause: "AddHost of a host that never registered",
    action: "addHost",
    code: "E_NOT_FOUND",
    fleet: { hosts: [] },
    says: "host h1 never registered",
  },
  {
    cause: "AddHost again",
    action: "addHost",
    code: "S_ALREADY",
    fleet: { devices: [attached("d1"), attached("d2", { attachState: "ATTACHING" })] },
    devices: { d1: "ATTACHED 1", d2: "ATTACHING 1" },
  },
  {
    cause: "AddHost cancels the wish to remove",
    action: "addHost",
    code: "S_OK",
    wish: false,
    fleet: { hosts: [aHost("h1", { removalRequested: true })], devices: [held("d1", "x", { removalRequested: true })] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "AddHost while closing",
    action: "addHost",
    code: "S_OK",
    fleet: { devices: [attached("d1", { attachState: "CLOSING", removalRequested: true })] },
    devices: { d1: "ATTACHING 101" },
  },
  {
    cause: "AddHost of devices that were let go of: what nothing tells from another drive is not trusted",
    action: "addHost",
    code: "S_OK",
    fleet: {
      devices: [
        attached("d1", { attachState: "DETACHED" }),
        attached("d2", { attachState: "DETACHED", serialNumber: "", fileIdentity: "boot file 1" }),
        attached("d3", { attachState: "DETACHED", serialNumber: "" }),
        attached("d4", { attachState: "CLOSING", serialNumber: "" }),
        attached("d5", { attachState: "ATTACHING", serialNumber: "" }),
        attached("d6", { serialNumber: "" }),
      ],
    },
    devices: {
      d1: "ATTACHING 101",
      d2: "ATTACHING 102",
      d3: "ATTACHING 103 dirty",
      d4: "ATTACHING 104 dirty",
      d5: "ATTACHING 1",
      d6: "ATTACHED 1",
    },
  },
  {
    cause: "AddDevice by id",
    action: "addD1",
    code: "S_OK",
    fleet: { devices: [unknown("d1"), unknown("d2")] },
    devices: { d1: "ATTACHING 101 dirty", d2: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice by path takes all devices on it",
    action: "addPath",
    code: "S_OK",
    fleet: { devices: [unknown("d1", onShared), unknown("d2", onShared), unknown("d3")] },
    devices: { d1: "ATTACHING 101 dirty", d2: "ATTACHING 102 dirty", d3: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice of an unreported device",
    action: "addD1",
    code: "E_NOT_FOUND",
    fleet: {},
    says: "device d1 was never reported",
  },
  {
    cause: "AddDevice of an unreported path",
    action: "addPath",
    code: "E_NOT_FOUND",
    fleet: {},
    says: "no device on path",
  },
  {
    cause: "AddDevice of a device that is another host's",
    action: "addD1OfH2",
    code: "E_ARGUMENT",
    says: "belongs to host h1, not to h2",
    fleet: { hosts: [aHost("h1"), aHost("h2")], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice accepts replaced hardware without a disk, dirty, under the next generation",
    action: "addD1",
    code: "S_OK",
    fleet: {
      devices: [
        attached("d1", {
          attachState: "ATTACHING",
          health: "ERROR",
          replacement: { path: "/dev/new", offsetBytes: 0, sizeBytes: 5, blockSizeBytes: 1, serialNumber: "new" },
        }),
      ],
    },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddDevice on a host that is to be removed",
    action: "addD1",
    code: "E_INVALID_STATE",
    says: "host h1 of device d1 is to be removed, and nothing is placed there: take the host back with AddHost first",
    fleet: { hosts: [aHost("h1", { removalRequested: true })], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice of a device in error: noted, and not in operation",
    action: "addD1",
    code: "E_INVALID_STATE",
    says: "taken in, and not in operation: device d1 is in error, and is attached once that is mended: EIO",
    fleet: { devices: [unknown("d1", { health: "ERROR", healthMessage: "EIO" })] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddDevice of a device in error again",
    action: "addD1",
    code: "E_INVALID_STATE",
    says: "in error",
    fleet: { devices: [attached("d1", { attachState: "ATTACHING", health: "ERROR", healthMessage: "EIO" })] },
    devices: { d1: "ATTACHING 1" },
  },
  {
    cause: "AddDevice while a disk is on what was replaced",
    action: "addD1",
    code: "E_INVALID_STATE",
    says: "other hardware is in its place, and disk x is on it: put the former hardware back, or delete the disk",
    fleet: {
      devices: [
        held("d1", "x", {
          health: "ERROR",
          replacement: { path: "/dev/new", offsetBytes: 0, sizeBytes: 5, blockSizeBytes: 1, serialNumber: "new" },
        }),
      ],
    },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "AddDevice on an UNAVAILABLE host: noted, and not in operation before it is heard",
    action: "addD1",
    code: "E_TRY_AGAIN",
    says: "d1: taken in, and not in operation before the host is heard: silent",
    fleet: { hosts: silentSince(NOW_MS), devices: [unknown("d1")] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddHost of an UNAVAILABLE host",
    action: "addHost",
    code: "E_TRY_AGAIN",
    says: "host h1 with its 1 device: taken in, and not in operation before the host is heard: silent",
    fleet: { hosts: silentSince(NOW_MS), devices: [attached("d1")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "AddHost of a DEAD host",
    action: "addHost",
    code: "E_INVALID_STATE",
    says: "host h1 is added once SetHostState takes that back",
    wish: true,
    fleet: { hosts: [aHost("h1", { state: "DEAD", removalRequested: true })], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice on a DEAD host",
    action: "addD1",
    code: "E_INVALID_STATE",
    says: "SetHostState",
    fleet: { hosts: [aHost("h1", { state: "DEAD" })], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddHost, one of its devices in error: in operation with the others",
    action: "addHost",
    code: "S_OK",
    says: "; not in operation: device d2 is in error, and is attached once that is mended: EIO",
    fleet: { devices: [unknown("d1"), unknown("d2", { health: "ERROR", healthMessage: "EIO" })] },
  },
  {
    cause: "AddHost, all its devices in error",
    action: "addHost",
    code: "E_INVALID_STATE",
    says: "not in operation: device d1 is in error",
    fleet: { devices: [attached("d1", { health: "ERROR", healthMessage: "EIO" })] },
  },
  {
    cause: "AddHost of a host all of whose devices were refused",
    action: "addHost",
    code: "E_INVALID_STATE",
    says: "host h1 has no device: the ids of all belong to other hosts: d1 (host h2)",
    fleet: {
      hosts: [aHost("h1", { foreignDevices: [{ deviceId: deviceId("d1"), hostId: hostId("h2") }] }), aHost("h2")],
      devices: [attached("d1", { hostId: hostId("h2") })],
    },
  },
  { cause: "AddHost of a host without a device", action: "addHost", code: "S_ALREADY", fleet: {} },
  {
    cause: "RemoveHost of a dead host with a disk: its state and the ways out, first after the usual time",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says:
      "holds 1 disk (delete them with DeleteDisk, or give them up with the host by PurgeHost with force): " +
      "x (PUBLISHED to h2, ERROR: device d1 on host h1: its host is UNAVAILABLE)",
    dependent: ["x"],
    retryAfterMs: 10_000,
    fleet: {
      hosts: [...silentSince(NOW_MS), aHost("h2")],
      devices: [held("d1", "x")],
      disks: [aDisk("x", ["d1"], { publication: publishedTo("h2", "PUBLISHED") })],
    },
  },
  ...[
    ["after 100 s -> 100 s", 100_000, 100_000],
    ["after an hour -> 5 min", 3_600_000, 300_000],
    ["after the clock was set back -> the usual time", -100_000, 10_000],
  ].map(
    ([when, ageMs, retryAfterMs]): Row => ({
      cause: `RemoveDevice of a broken device with a disk, ${when}`,
      action: "removeD1",
      code: "E_TRY_AGAIN",
      says: "x (unpublished, ERROR: device d1 on host h1: EIO)",
      dependent: ["x"],
      retryAfterMs: Number(retryAfterMs),
      fleet: {
        devices: [
          held("d1", "x", {
            health: "ERROR",
            healthMessage: "EIO",
            removalRequested: true,
            removalRequestedAtMs: NOW_MS - Number(ageMs),
          }),
        ],
        disks: [aDisk("x", ["d1"])],
      },
    }),
  ),
  {
    cause: "RemoveDevice of a device with a disk that is well, after an hour: the usual time",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    says: "holds 1 disk (delete them): x (unpublished, ONLINE)",
    dependent: ["x"],
    retryAfterMs: 10_000,
    fleet: {
      devices: [held("d1", "x", { removalRequested: true, removalRequestedAtMs: NOW_MS - 3_600_000 })],
      disks: [aDisk("x", ["d1"])],
    },
  },
  {
    cause: "RemoveHost with free devices",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "2 devices are being closed",
    wish: true,
    fleet: {
      devices: [attached("d1"), attached("d2", { attachState: "ATTACHING" }), unknown("d3", { detachConfirmed: true })],
    },
    devices: { d1: "CLOSING 101 wish", d2: "CLOSING 102 wish", d3: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveHost with one disk left holds all its devices back",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    wish: true,
    fleet: { devices: [held("d1", "x"), attached("d2")], disks: [aDisk("x", ["d1"])] },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost asked again while disks are there says so again",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["x", "y"],
    fleet: {
      hosts: [aHost("h1", { removalRequested: true })],
      devices: [held("d1", "y", { removalRequested: true }), held("d2", "x", { removalRequested: true })],
    },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host that serves a disk of other hosts' devices holds all its own back",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "serves 1 disk (unpublish them): y (PUBLISHED to h1, ONLINE)",
    dependent: ["y"],
    wish: true,
    fleet: {
      hosts: [aHost("h1"), aHost("h2")],
      devices: [attached("d1"), held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("y", ["d2"], { publication: publishedTo("h1", "PUBLISHED") })],
    },
    devices: { d1: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host that holds one disk, and may still serve another",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["x", "y"],
    fleet: {
      hosts: [aHost("h1"), aHost("h2")],
      devices: [held("d1", "x"), held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("x", ["d1"]), aDisk("y", ["d2"], { publication: publishedTo("h1", "UNPUBLISHING") })],
    },
    devices: { d1: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host without devices that serves a disk",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    dependent: ["y"],
    fleet: {
      hosts: [aHost("h1"), aHost("h2")],
      devices: [held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("y", ["d2"], { publication: publishedTo("h1", "PUBLISHING") })],
    },
  },
  {
    cause: "RemoveHost of a host that is a VM",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "is VM vm-1 (delete it)",
    wish: true,
    fleet: { hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 } })], devices: [attached("d1")] },
    devices: { d1: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveDevice of a free device, while its host serves another disk and is a VM",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    says: "1 device is being closed",
    fleet: {
      hosts: [aHost("h1", { assignment: { vmCid: "vm-1", assignedAtMs: 0 } }), aHost("h2")],
      devices: [attached("d1"), held("d2", "y", { hostId: hostId("h2") })],
      disks: [aDisk("y", ["d2"], { publication: publishedTo("h1", "PUBLISHED") })],
    },
    devices: { d1: "CLOSING 101 wish" },
  },
  {
    cause: "RemoveHost while closing",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "last error, of device d1: EIO",
    fleet: { devices: [attached("d1", { attachState: "CLOSING", lastError: "EIO", removalRequested: true })] },
    devices: { d1: "CLOSING 1 wish" },
  },
  {
    cause: "RemoveHost once detached",
    action: "removeHost",
    code: "S_OK",
    says: "host h1 is out of operation",
    fleet: { devices: [attached("d1", { attachState: "DETACHED", detachConfirmed: true })] },
    devices: { d1: "DETACHED 1" },
  },
  {
    cause: "RemoveHost of devices that nobody confirmed",
    action: "removeHost",
    code: "S_OK",
    says: "nobody confirmed that it was let go, and its host may still hold: d1",
    fleet: { devices: [attached("d1", { attachState: "DETACHED" })] },
  },
  {
    cause: "RemoveHost of an UNAVAILABLE host",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "host h1 is UNAVAILABLE and cannot confirm; it counts as removed in 3600 s",
    fleet: { hosts: silentSince(NOW_MS), devices: [attached("d1")] },
    devices: { d1: "CLOSING 101 wish" },
  },
  {
    cause: "RemoveDevice with a disk",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x"), attached("d2")] },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1" },
  },
  {
    cause: "RemoveDevice by path: one disk on it holds all back",
    action: "removePath",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x", onShared), attached("d2", onShared)] },
    devices: { d1: "ATTACHED 1 wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveDevice by path, free: all of them together",
    action: "removePath",
    code: "E_TRY_AGAIN",
    fleet: { devices: [attached("d1", onShared), attached("d2", onShared)] },
    devices: { d1: "CLOSING 101 wish", d2: "CLOSING 102 wish" },
  },
  {
    cause: "RemoveDevice of an UNKNOWN device that its agent holds no more",
    action: "removeD1",
    code: "S_OK",
    says: "not erased, and what was on them still is: d1",
    unerased: ["d1"],
    fleet: { devices: [unknown("d1", { detachConfirmed: true })] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveHost of an UNKNOWN device that its agent may still hold",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "1 device is being closed by their agent",
    fleet: { devices: [attached("d1", { attachState: "DETACHED", detachConfirmed: true }), unknown("d2")] },
    devices: { d1: "DETACHED 1", d2: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveDevice of an UNKNOWN device whose host has been silent for less than the removal timeout",
    action: "removeD1",
    code: "E_TRY_AGAIN",
    says: "host h1 is UNAVAILABLE and cannot confirm",
    fleet: { hosts: silentSince(NOW_MS), devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveDevice of an UNKNOWN device whose host is lost",
    action: "removeD1",
    code: "S_OK",
    says: "nobody confirmed that it was let go, and its host may still hold: d1",
    unerased: ["d1"],
    fleet: { hosts: silentSince(NOW_MS - 3_600_000), devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "RemoveHost with dirty devices: erased first, and none of them leaves before",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "2 devices are being erased, 33554432 of 134217728 bytes are done",
    erase: "32 / 128",
    wish: true,
    fleet: {
      devices: [attached("d1"), attached("half", dirty), attached("d2", { ...dirty, attachState: "ATTACHING" })],
    },
    devices: { d1: "ATTACHED 1 wish", half: "ATTACHED 1 dirty wish", d2: "ATTACHING 1 dirty wish" },
  },
  {
    cause: "RemoveHost again, when they are erased",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "2 devices are being closed",
    fleet: { devices: [attached("d1", { removalRequested: true }), attached("d2", { removalRequested: true })] },
    devices: { d1: "CLOSING 101 wish", d2: "CLOSING 102 wish" },
  },
  {
    cause: "RemoveHost with an erase that failed for the first time",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "1 device is being erased, 0 of 67108864 bytes are done; last error, of device d1: erase: EIO",
    erase: "0 / 64",
    fleet: { devices: [attached("d1", { ...dirty, lastError: "erase: EIO" })] },
  },
  ...(
    [
      ["in ERROR", "d1", { health: "ERROR", healthMessage: "no such drive" }, "d1 (ERROR: no such drive)"],
      [
        "that was never attached",
        "d1",
        { attachState: "ATTACHING", attempts: 3, lastError: "ENOENT" },
        "d1 (not attached: ENOENT)",
      ],
      ["whose erase failed three times", "bad", { lastError: "erase: EIO" }, "bad (erase: EIO)"],
    ] as const
  ).map(
    ([what, id, more, says]): Row => ({
      cause: `RemoveHost with a dirty device ${what}: says so, and the way out`,
      action: "removeHost",
      code: "E_TRY_AGAIN",
      says: `1 device cannot be erased: ${says}: mend them, or take them out with what is on them by RemoveDevice with keep_data`,
      erase: "0 / 64",
      fleet: { devices: [attached(id, { ...dirty, ...more })] },
    }),
  ),
  {
    cause: "RemoveDevice with keep_data of one that cannot be erased",
    action: "removeD1Keeping",
    code: "E_TRY_AGAIN",
    says: "1 device is being closed",
    fleet: { devices: [attached("d1", { ...dirty, health: "ERROR", healthMessage: "EIO", removalRequested: true })] },
    devices: { d1: "CLOSING 101 dirty wish keep" },
  },
  {
    cause: "RemoveDevice with keep_data, once detached",
    action: "removeD1Keeping",
    code: "S_OK",
    says: "not erased, and what was on them still is: d1",
    unerased: ["d1"],
    fleet: {
      devices: [
        attached("d1", {
          ...dirty,
          attachState: "DETACHED",
          detachConfirmed: true,
          removalRequested: true,
          keepData: true,
        }),
      ],
    },
    devices: { d1: "DETACHED 1 dirty wish keep" },
  },
  {
    cause: "RemoveHost with keep_data while a disk is there: part of the wish",
    action: "removeHostKeeping",
    code: "E_TRY_AGAIN",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x"), attached("d2", dirty)] },
    devices: { d1: "ATTACHED 1 wish keep", d2: "ATTACHED 1 dirty wish keep" },
  },
  {
    cause: "RemoveHost without keep_data after one with it: the last call counts",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "1 device is being erased",
    erase: "0 / 64",
    fleet: { devices: [attached("d1", { ...dirty, removalRequested: true, keepData: true })] },
    devices: { d1: "ATTACHED 1 dirty wish" },
  },
  {
    cause: "RemoveHost with keep_data after one without: erases are not waited for",
    action: "removeHostKeeping",
    code: "E_TRY_AGAIN",
    says: "2 devices are being closed",
    fleet: {
      devices: [attached("d1", { ...dirty, removalRequested: true }), attached("d2", { removalRequested: true })],
    },
    devices: { d1: "CLOSING 101 dirty wish keep", d2: "CLOSING 102 wish keep" },
  },
  {
    cause: "AddHost cancels the wish, and that data was to be kept",
    action: "addHost",
    code: "S_OK",
    wish: false,
    fleet: {
      hosts: [aHost("h1", { removalRequested: true })],
      devices: [attached("d1", { ...dirty, removalRequested: true, keepData: true })],
    },
    devices: { d1: "ATTACHED 1 dirty" },
  },
  {
    cause: "RemoveHost of an UNAVAILABLE host with dirty devices: they wait for its return, or the timeout",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "host h1 is UNAVAILABLE and cannot erase or confirm; it counts as removed in 3600 s",
    fleet: { hosts: silentSince(NOW_MS), devices: [attached("d1", dirty), attached("d2")] },
    devices: { d1: "ATTACHED 1 dirty wish", d2: "ATTACHED 1 wish" },
  },
  {
    cause: "RemoveHost of a host that was UNAVAILABLE for the removal timeout: out, and the answer says how",
    action: "removeHost",
    code: "S_OK",
    says: "its host may still hold: d1, d2; not erased, and what was on them still is: d1",
    unerased: ["d1"],
    fleet: { hosts: silentSince(NOW_MS - 3_600_000), devices: [attached("d1", dirty), attached("d2")] },
    devices: { d1: "DETACHED 101 dirty wish", d2: "DETACHED 102 wish" },
  },
  {
    cause: "PurgeHost with dirty devices names them",
    action: "purgeHost",
    code: "S_OK",
    says: "not erased, and what was on them still is: d1",
    unerased: ["d1"],
    fleet: { devices: [attached("d1", dirty), attached("d2")] },
  },
  {
    cause: "PurgeHost with a disk",
    action: "purgeHost",
    code: "E_INVALID_STATE",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "PurgeHost without disks",
    action: "purgeHost",
    code: "S_OK",
    fleet: { devices: [attached("d1")] },
    devices: { d1: null },
  },
  {
    cause: "PurgeHost with a disk and force",
    action: "purgeHostForce",
    code: "S_OK",
    dependent: ["x"],
    says: "these disks have lost devices: x",
    unerased: ["d1"],
    fleet: { devices: [held("d1", "x")], disks: [aDisk("x", ["d1"])] },
    devices: { d1: null },
  },
  {
    cause: "PurgeDevice of an ONLINE host: ordered detached",
    action: "purgeD1",
    code: "S_OK",
    fleet: { devices: [attached("d1")] },
    devices: { d1: "UNKNOWN 101 dirty" },
  },
  {
    cause: "PurgeDevice of an UNAVAILABLE host",
    action: "purgeD1",
    code: "S_OK",
    fleet: { hosts: silentSince(0), devices: [attached("d1")] },
    devices: { d1: null },
  },
  {
    cause: "PurgeDevice with a disk",
    action: "purgeD1",
    code: "E_INVALID_STATE",
    dependent: ["x"],
    fleet: { devices: [held("d1", "x")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "PurgeDevice with a disk and force",
    action: "purgeD1Force",
    code: "S_OK",
    unerased: ["d1"],
    dependent: ["x"],
    fleet: { devices: [held("d1", "x")], disks: [aDisk("x", ["d1"])] },
    devices: { d1: "UNKNOWN 101 dirty" },
  },
];

function shown(fleet: TestFleet, id: string): string | null {
  const device = fleet.tables.devices.get(id);
  if (device === undefined) return null;
  return `${device.attachState} ${device.generation}${device.dirty ? " dirty" : ""}${device.removalRequested ? " wish" : ""}${device.keepData ? " keep" : ""}`;
}

describe("CMS actions", () => {
  for (const row of rows) {
    it(`${row.cause} -> ${row.code}`, () => {
      const fleet = new TestFleet(row.fleet);
      const result = fleet.transact(actions[row.action]);
      expect(result.code, result.message).to.equal(row.code);
      if (row.retryAfterMs !== undefined) expect(result.retryAfterMs).to.equal(row.retryAfterMs);
      if (row.says !== undefined) expect(result.message).to.contain(row.says);
      expect(result.dependentDiskIds).to.deep.equal(row.dependent ?? []);
      const erase = result.erase && `${result.erase.bytesErased / MIB} / ${result.erase.bytesToErase / MIB}`;
      expect(erase).to.equal(row.erase);
      expect(result.unerasedDeviceIds ?? []).to.deep.equal(row.unerased ?? []);
      expect(result.retryAfterMs > 0).to.equal(row.code === "E_TRY_AGAIN");
      for (const [id, expected] of Object.entries(row.devices ?? {})) expect(shown(fleet, id), id).to.equal(expected);
      if (row.wish !== undefined) expect(fleet.host("h1").removalRequested).to.equal(row.wish);
    });
  }

  it("the second identical action -> no document changes", () => {
    for (const action of ["addHost", "removeHost"] as const) {
      const fleet = new TestFleet({ devices: [attached("d1"), unknown("d2")] });
      fleet.transact(actions[action]);
      expect(fleet.changes(actions[action]), action).to.equal(0);
    }
  });

  it("host UNAVAILABLE for the removal timeout -> CLOSING devices DETACHED, unconfirmed, others unchanged", () => {
    const devices = [
      attached("d1", { attachState: "CLOSING", generation: 9 }),
      attached("d2"),
      attached("d3", { attachState: "ATTACHING" }),
    ];
    const early = new TestFleet({ hosts: silentSince(NOW_MS - 3_599_999), devices });
    expect(early.transact((tx) => giveUpOnHost(tx, h1, limits, NOW_MS))).to.equal(0);
    const late = new TestFleet({ hosts: silentSince(NOW_MS - 3_600_000), devices });
    expect(late.transact((tx) => giveUpOnHost(tx, h1, limits, NOW_MS))).to.equal(1);
    expect(late.device("d1")).to.include({ attachState: "DETACHED", generation: 9, detachConfirmed: false });
    expect(late.device("d2").attachState).to.equal("ATTACHED");
    expect(late.device("d3").attachState).to.equal("ATTACHING");
    const online = new TestFleet({ hosts: [aHost("h1")], devices });
    expect(online.transact((tx) => giveUpOnHost(tx, h1, limits, NOW_MS))).to.equal(0);
  });

  it("a device leaves while it is erased -> what its agent says later of that erase makes nothing clean", () => {
    const fleet = new TestFleet({ devices: [attached("d1", { ...dirty, eraseSessionNumber: 150 })] });
    fleet.transact((tx) => removeDevice(tx, { deviceId: deviceId("d1") }, call(true)));
    fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }));
    expect(fleet.transact((tx) => completeErase(tx, deviceId("d1"), 150))).to.equal(false);
    expect(fleet.device("d1").dirty).to.equal(true);
  });

  it("PurgeHost with force of a host that serves a disk -> the disk is fenced off from it", () => {
    const publication = publishedTo("h1", "PUBLISHED");
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: [attached("d9", { hostId: hostId("h2"), diskId: diskId("x") })],
      disks: [aDisk("x", ["d9"], { publication })],
    });
    expect(fleet.transact(actions.purgeHost).code).to.equal("E_INVALID_STATE");
    expect(fleet.transact(actions.purgeHostForce).code).to.equal("S_OK");
    expect(fleet.disk("x").publication).to.include({ state: "UNPUBLISHING", sessionNumber: 201 });
  });
});
