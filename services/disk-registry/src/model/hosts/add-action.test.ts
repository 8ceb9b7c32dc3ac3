import { expect } from "chai";
import {
  type ActionRow,
  actions,
  attached,
  dirty,
  held,
  NOW_MS,
  onShared,
  silentSince,
  testActions,
  unknown,
} from "../../testing/cms-actions.js";
import { aHost, deviceId, hostId, TestFleet } from "../../testing/fleet-fixture.js";

const drive = { serialNumber: "", fileIdentity: "boot block 8:16:3" };
const otherHardware = {
  health: "ERROR",
  replacement: { path: "/dev/new", offsetBytes: 0, sizeBytes: 5, blockSizeBytes: 1, serialNumber: "new" },
} as const;

const rows: readonly ActionRow[] = [
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
    code: "NOT_FOUND",
    fleet: { hosts: [] },
    says: "there is no host h1",
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
        attached("d2", { attachState: "DETACHED", serialNumber: "", fileIdentity: "boot file 8:7:5" }),
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
    code: "NOT_FOUND",
    fleet: {},
    says: "there is no device d1: no agent has reported it; there is none",
  },
  {
    cause: "AddDevice of an unreported path",
    action: "addPath",
    code: "NOT_FOUND",
    fleet: {},
    says: "no device on path",
  },
  {
    cause: "AddDevice of a device that is another host's",
    action: "addD1OfH2",
    code: "INVALID_ARGUMENT",
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
          ...otherHardware,
        }),
      ],
    },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddHost with a device that nothing identifies",
    action: "addHost",
    code: "S_PARTLY",
    says: "in operation with 1 of its 2 devices; the others are refused: device d2 of host h1 has no unique serial number",
    fleet: { devices: [unknown("d1"), unknown("d2", drive)] },
    devices: { d1: "ATTACHING 101 dirty", d2: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddHost with a device that nothing identifies, again",
    action: "addHost",
    code: "S_PARTLY",
    says: "in operation with 1 of its 2 devices; the others are refused: device d2 of host h1 has no unique serial number",
    fleet: { devices: [attached("d1"), unknown("d2", drive)] },
    devices: { d1: "ATTACHED 1", d2: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddHost, all its devices refused",
    action: "addHost",
    code: "INVALID_STATE",
    says: "; and 1 more",
    fleet: { devices: ["d1", "d2", "d3", "d4", "d5"].map((id) => unknown(id, drive)) },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddHost, all its devices refused, cancels the wish to remove",
    action: "addHost",
    code: "S_PARTLY",
    wish: false,
    says: "in operation with 0 of its 1 device; the others are refused",
    fleet: { hosts: [aHost("h1", { removalRequested: true })], devices: [unknown("d1", drive)] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice by path takes one and refuses the other",
    action: "addPath",
    code: "S_PARTLY",
    says: "taken in: 1 of d1, d2; the others are refused: device d2 of host h1 has no unique serial number",
    fleet: { devices: [unknown("d1", onShared), unknown("d2", { ...onShared, ...drive })] },
    devices: { d1: "ATTACHING 101 dirty", d2: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddHost with one that nothing identifies, and that is in operation",
    action: "addHost",
    code: "S_ALREADY",
    fleet: { devices: [attached("d1", drive)] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "AddDevice of one that nothing identifies",
    action: "addD1",
    code: "INVALID_STATE",
    says: "add the device with accept_unidentified (diskmesh add-device h1 d1 --accept-unidentified)",
    fleet: { devices: [unknown("d1", drive)] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice of one that nothing identifies, accepted so",
    action: "addD1Unidentified",
    code: "S_OK",
    fleet: { devices: [unknown("d1", drive)] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddDevice accepts other hardware in the place of what was not erased",
    action: "addD1",
    code: "S_OK",
    says: "their former hardware was removed without an erase and still has its data: d1",
    unerased: ["d1"],
    fleet: { devices: [attached("d1", { ...dirty, ...otherHardware })] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddHost accepts it on a host that is UNAVAILABLE",
    action: "addHost",
    code: "E_TRY_AGAIN",
    says: "their former hardware was removed without an erase",
    unerased: ["d1"],
    fleet: { hosts: silentSince(NOW_MS), devices: [attached("d1", { ...dirty, ...otherHardware })] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddDevice on a host that is to be removed",
    action: "addD1",
    code: "HOST_BEING_REMOVED",
    says: "host h1 of device d1 is to be removed and takes no disks: keep the host with AddHost first",
    fleet: { hosts: [aHost("h1", { removalRequested: true })], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice of a device in error: noted, and not in operation",
    action: "addD1",
    code: "S_PARTLY",
    says: "taken in, and not in operation: device d1 is in error, and is attached once the error is repaired: EIO",
    fleet: { devices: [unknown("d1", { health: "ERROR", healthMessage: "EIO" })] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddDevice of a device in error again",
    action: "addD1",
    code: "S_PARTLY",
    says: "in error",
    fleet: { devices: [attached("d1", { attachState: "ATTACHING", health: "ERROR", healthMessage: "EIO" })] },
    devices: { d1: "ATTACHING 1" },
  },
  {
    cause: "AddDevice while a disk is on what was replaced",
    action: "addD1",
    code: "INVALID_STATE",
    says: "disk x is on it: put the former hardware back, or delete the disk",
    fleet: {
      devices: [
        held("d1", "x", {
          ...otherHardware,
        }),
      ],
    },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "AddDevice on an UNAVAILABLE host: noted, and not in operation before it is heard",
    action: "addD1",
    code: "E_TRY_AGAIN",
    says: "d1: taken in, but not in operation until the host sends heartbeats: silent",
    fleet: { hosts: silentSince(NOW_MS), devices: [unknown("d1")] },
    devices: { d1: "ATTACHING 101 dirty" },
  },
  {
    cause: "AddHost of an UNAVAILABLE host",
    action: "addHost",
    code: "E_TRY_AGAIN",
    says: "host h1 with its 1 device: taken in, but not in operation until the host sends heartbeats: silent",
    fleet: { hosts: silentSince(NOW_MS), devices: [attached("d1")] },
    devices: { d1: "ATTACHED 1" },
  },
  {
    cause: "AddHost of a DEAD host",
    action: "addHost",
    code: "INVALID_STATE",
    says: "host h1 is added once SetHostState revokes DEAD",
    wish: true,
    fleet: { hosts: [aHost("h1", { state: "DEAD", removalRequested: true })], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddDevice on a DEAD host",
    action: "addD1",
    code: "INVALID_STATE",
    says: "SetHostState",
    fleet: { hosts: [aHost("h1", { state: "DEAD" })], devices: [unknown("d1")] },
    devices: { d1: "UNKNOWN 1 dirty" },
  },
  {
    cause: "AddHost, one of its devices in error: in operation with the others",
    action: "addHost",
    code: "S_OK",
    says: "; not in operation: device d2 is in error, and is attached once the error is repaired: EIO",
    fleet: { devices: [unknown("d1"), unknown("d2", { health: "ERROR", healthMessage: "EIO" })] },
  },
  {
    cause: "AddHost, all its devices in error",
    action: "addHost",
    code: "S_PARTLY",
    says: "not in operation: device d1 is in error",
    fleet: { devices: [attached("d1", { health: "ERROR", healthMessage: "EIO" })] },
  },
  {
    cause: "AddHost of a host all of whose devices were refused",
    action: "addHost",
    code: "INVALID_STATE",
    says: "host h1 has no device, because all its device ids belong to other hosts (d1 (host h2))",
    fleet: {
      hosts: [aHost("h1", { foreignDevices: [{ deviceId: deviceId("d1"), hostId: hostId("h2") }] }), aHost("h2")],
      devices: [attached("d1", { hostId: hostId("h2") })],
    },
  },
  {
    cause: "AddHost of such a host cancels the wish to remove",
    action: "addHost",
    code: "S_PARTLY",
    wish: false,
    says: "host h1 is no longer to be removed; host h1 has no device",
    fleet: {
      hosts: [
        aHost("h1", { removalRequested: true, foreignDevices: [{ deviceId: deviceId("d1"), hostId: hostId("h2") }] }),
        aHost("h2"),
      ],
    },
  },
  { cause: "AddHost of a host without a device", action: "addHost", code: "S_ALREADY", fleet: {} },
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
];

describe("CMS actions that add", () => {
  testActions(rows);

  it("change no document when repeated", () => {
    for (const action of ["addHost", "removeHost"] as const) {
      const fleet = new TestFleet({ devices: [attached("d1"), unknown("d2")] });
      fleet.transact(actions[action]);
      expect(fleet.changes(actions[action]), action).to.equal(0);
    }
  });
});
