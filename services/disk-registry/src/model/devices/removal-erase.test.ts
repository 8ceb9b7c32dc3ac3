import { expect } from "chai";
import {
  type ActionRow,
  attached,
  dirty,
  held,
  NOW_MS,
  removalCall,
  silentSince,
  testActions,
} from "../../testing/cms-actions.js";
import { deviceId, TestFleet } from "../../testing/fleet-fixture.js";
import { addDevice } from "../hosts/add-action.js";
import { removeDevice } from "../hosts/remove-action.js";
import { completeErase } from "./erase.js";

const rows: readonly ActionRow[] = [
  {
    cause: "RemoveHost with dirty devices: erased first, and none of them leaves before",
    action: "removeHost",
    code: "E_TRY_AGAIN",
    says: "2 devices are being erased, 32 MiB of 128 MiB are done",
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
    says: "1 device is being erased, 0 bytes of 64 MiB are done; last error, of device d1: erase: EIO",
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
    ([what, id, more, says]): ActionRow => ({
      cause: `RemoveHost with a dirty device ${what}: says so, and the way out`,
      action: "removeHost",
      code: "E_TRY_AGAIN",
      says: `1 device cannot be erased: ${says}: repair them, or remove them with their data by RemoveDevice with keep_data`,
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
    says: "not erased, so they still have their data: d1",
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
    says: "so the host may still use: d1, d2; not erased, so they still have their data: d1",
    unerased: ["d1"],
    fleet: { hosts: silentSince(NOW_MS - 3_600_000), devices: [attached("d1", dirty), attached("d2")] },
    devices: { d1: "DETACHED 101 dirty wish", d2: "DETACHED 102 wish" },
  },
];

describe("CMS actions that erase before they remove", () => {
  testActions(rows);

  it("ignore a later answer about the erase of a device that has left", () => {
    const fleet = new TestFleet({ devices: [attached("d1", { ...dirty, eraseSessionNumber: 150 })] });
    fleet.transact((tx) => removeDevice(tx, { deviceId: deviceId("d1") }, removalCall(true)));
    fleet.transact((tx) => addDevice(tx, { deviceId: deviceId("d1") }, { nowMs: NOW_MS, waitingRetryAfterMs: 10_000 }));
    expect(fleet.transact((tx) => completeErase(tx, deviceId("d1"), 150))).to.equal(false);
    expect(fleet.seen("d1").dirty).to.equal(true);
  });
});
