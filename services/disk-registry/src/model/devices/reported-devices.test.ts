import { expect } from "chai";
import {
  aDevice,
  aHost,
  type DeviceFields,
  deviceId,
  hostId,
  leader,
  MIB,
  remembered,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { registerAgent } from "../hosts/registration.js";
import type { Device } from "../store/schema.js";
import type { ReportedDevice } from "./reported-devices.js";

const NOW_MS = 50_000;
const FILE = { fileIdentity: "inode 1" };

function asKnown(device: Device, change: Partial<ReportedDevice> = {}): ReportedDevice {
  return { ...device, attached: true, sessionNumber: 0, sessionDiskId: "", ...change };
}

function register(fleet: TestFleet, devices: readonly ReportedDevice[]): number {
  const { address, az, rack, bootId } = aHost("h1");
  const exports: never[] = [];
  const of = { hostId: hostId("h1"), address, az, rack, bootId, exports };
  const registration = { ...of, remembered, devices };
  return fleet.changes((tx) => registerAgent(tx, registration, leader, { maxHosts: 3 }, NOW_MS));
}

/** Each field changes alone, because the check for an unchanged report must compare all of them. */
const changed: readonly { readonly report: Partial<ReportedDevice>; readonly effect: DeviceFields }[] = [
  { report: { path: "/dev/other" }, effect: { path: "/dev/other" } },
  { report: { pool: "fast" }, effect: { pool: "fast" } },
  { report: { health: "WARNING" }, effect: { health: "WARNING" } },
  { report: { healthMessage: "slow" }, effect: { healthMessage: "slow" } },
  { report: { attached: false }, effect: { attachState: "ATTACHING", generation: 101 } },
  { report: { offsetBytes: MIB }, effect: { health: "ERROR" } },
  { report: { sizeBytes: 32 * MIB }, effect: { health: "ERROR" } },
  { report: { sizeBytes: 128 * MIB }, effect: { sizeBytes: 64 * MIB, grownToBytes: 128 * MIB } },
  { report: { blockSizeBytes: 512 }, effect: { health: "ERROR" } },
  { report: { serialNumber: "another" }, effect: { health: "ERROR" } },
  { report: { serialNumber: "", fileIdentity: "inode 2" }, effect: { health: "ERROR" } },
  { report: { fileIdentity: "inode 2" }, effect: { health: "ONLINE", fileIdentity: "inode 2" } },
];

describe("reported devices", () => {
  for (const { report, effect } of changed) {
    it(`${JSON.stringify(report)} changes ${JSON.stringify(effect)}`, () => {
      const known = aDevice("d1", FILE);
      const fleet = new TestFleet({ devices: [known] });
      expect(register(fleet, [asKnown(known, report)])).to.be.greaterThan(0);
      expect(fleet.device("d1")).to.deep.include(effect);
    });
  }

  it("an unknown serial number or file identity changes nothing", () => {
    const known = aDevice("d1", FILE);
    const fleet = new TestFleet({ devices: [known] });
    expect(register(fleet, [asKnown(known, { serialNumber: "" })])).to.equal(0);
    expect(register(fleet, [asKnown(known, { fileIdentity: "" })])).to.equal(0);
  });

  it("a device that replaces another in the report makes the other one lost", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2")] });
    register(fleet, [asKnown(aDevice("d1")), asKnown(aDevice("d3"))]);
    expect(fleet.device("d2")).to.include({ health: "ERROR", attachState: "ATTACHING" });
    expect(fleet.device("d3").attachState).to.equal("UNKNOWN");
  });

  it("a device of another host in the report makes the missing one lost", () => {
    const theirs = aDevice("d3", { hostId: hostId("h2") });
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2")],
      devices: [aDevice("d1"), aDevice("d2"), theirs],
    });
    register(fleet, [asKnown(aDevice("d1")), asKnown(aDevice("d3"))]);
    expect(fleet.device("d2").health).to.equal("ERROR");
    expect(fleet.device("d3")).to.deep.equal(theirs);
    expect(fleet.tables.devices.get(deviceId("d1"))?.health).to.equal("ONLINE");
  });
});
