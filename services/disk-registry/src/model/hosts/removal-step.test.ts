import { expect } from "chai";
import { attached, dirty, h1, held, NOW_MS, publishedTo, removalCall, silentSince } from "../../testing/cms-actions.js";
import { aDisk, aHost, deviceId, type Fleet, hostId, TestFleet } from "../../testing/fleet-fixture.js";
import type { Device } from "../store/schema.js";
import { addHost } from "./add-action.js";
import { isStepDue, takeSteps } from "./removal-step.js";
import { removeDevice, removeHost } from "./remove-action.js";

const call = removalCall(false);
const wish = { removalRequested: true } as const;
const alone = { ...wish, leavesAs: "DEVICE" } as const;
const ofPath = { ...wish, leavesAs: "PATH", path: "/dev/shared" } as const;
const leaving = (fields = {}) => aHost("h1", { ...wish, ...fields });

/** A fleet with wishes, and the devices that the step closes. */
const rows: readonly (readonly [cause: string, fleet: Fleet, closed: readonly string[]])[] = [
  [
    "a host that nothing uses",
    { hosts: [leaving()], devices: [attached("d1", wish), attached("d2", wish)] },
    ["d1", "d2"],
  ],
  [
    "a host with a disk on one device",
    { hosts: [leaving()], devices: [held("d1", "x", wish), attached("d2", wish)], disks: [aDisk("x", ["d1"])] },
    [],
  ],
  [
    "a host that serves a disk",
    {
      hosts: [leaving(), aHost("h2")],
      devices: [attached("d1", wish), held("d2", "x", { hostId: hostId("h2") })],
      disks: [aDisk("x", ["d2"], { publication: publishedTo("h1", "UNPUBLISHING") })],
    },
    [],
  ],
  [
    "a host that is a VM, and a device of it that was named by itself",
    {
      hosts: [leaving({ assignment: { vmCid: "vm-1", assignedAtMs: 0 } })],
      devices: [attached("d1", wish), attached("d2", alone)],
    },
    ["d2"],
  ],
  [
    "a host with a device to be erased",
    { hosts: [leaving()], devices: [attached("d1", wish), attached("d2", { ...wish, ...dirty })] },
    [],
  ],
  [
    "a host that keeps its data",
    { hosts: [leaving()], devices: [attached("d1", { ...wish, ...dirty, keepData: true })] },
    ["d1"],
  ],
  [
    "a path with a disk on one device, and a device that is kept there",
    {
      devices: [held("d1", "x", ofPath), attached("d2", ofPath), attached("d3", { path: "/dev/shared" })],
      disks: [aDisk("x", ["d1"])],
    },
    [],
  ],
  [
    "a path that is free, and a disk on a device that is kept there",
    {
      devices: [attached("d1", ofPath), attached("d2", ofPath), held("d3", "x", { path: "/dev/shared" })],
      disks: [aDisk("x", ["d3"])],
    },
    ["d1", "d2"],
  ],
  [
    "devices of former stores, of a host that stays",
    { devices: [attached("d1", wish), attached("d2", { ...wish, ...dirty })] },
    ["d1"],
  ],
  [
    "a host that is silent for less than the timeout",
    { hosts: silentSince(call.listenedMs), devices: [attached("d1", { ...wish, ...dirty })] },
    [],
  ],
  [
    "a host that is silent for the timeout",
    { hosts: silentSince(call.listenedMs - 3_600_000), devices: [attached("d1", { ...wish, ...dirty })] },
    ["d1"],
  ],
];

const isOut = ({ attachState }: Device): boolean => attachState === "CLOSING" || attachState === "DETACHED";

describe("the step of a removal", () => {
  for (const [cause, scene, closed] of rows)
    it(`of ${cause} closes ${closed.join(", ") || "nothing"}, once`, () => {
      const fleet = new TestFleet(scene);
      expect(isStepDue(fleet.tables, h1, call)).to.equal(closed.length > 0);
      expect(fleet.transact((tx) => takeSteps(tx, h1, call))).to.equal(closed.length);
      expect([...fleet.tables.devices.entries()].filter(isOut).map((device) => device.deviceId)).to.deep.equal(closed);
      expect(isStepDue(fleet.tables, h1, call)).to.equal(false);
      expect(fleet.changes((tx) => takeSteps(tx, h1, call))).to.equal(0);
    });

  it("RemoveHost leaves a device that RemoveDevice named to itself, until AddHost takes both back", () => {
    const fleet = new TestFleet({ devices: [held("d1", "x"), attached("d2", dirty)], disks: [aDisk("x", ["d1"])] });
    fleet.transact((tx) => removeDevice(tx, { deviceId: deviceId("d2") }, call));
    fleet.transact((tx) => removeHost(tx, h1, call));
    expect(fleet.device("d2").leavesAs).to.equal("DEVICE");
    expect(fleet.device("d1").leavesAs).to.equal(undefined);
    fleet.transact((tx) => addHost(tx, h1, { nowMs: NOW_MS, waitingRetryAfterMs: 1 }));
    expect(fleet.device("d2").removalRequested).to.equal(false);
    expect(fleet.device("d2").leavesAs).to.equal(undefined);
  });
});
