import { expect } from "chai";
import { capacityOf } from "../model/disks/capacity.js";
import { NOBODY_SUSPECTED } from "../model/disks/placement.js";
import type { RegistryTables } from "../model/store/schema.js";
import { aDevice, aDisk, aHost, type DeviceFields, diskId, hostId, MIB, TestFleet } from "../testing/fleet-fixture.js";
import { RepairRoom } from "./repair-room.js";

const ON_2 = { hostId: hostId("h2") };
const HELD = { diskId: diskId("a") };

/** Returns what lacks by the capacity that is read from all devices. */
function missingIn(tables: RegistryTables): number {
  const pools = capacityOf(tables, {}, { whySuspected: NOBODY_SUSPECTED, maxDevices: 8 });
  return Math.max(0, ...pools.map(({ repairBytes, soonFreeBytes }) => repairBytes - soonFreeBytes));
}

describe("the room that lacks to empty the largest host", () => {
  const rows: readonly [
    title: string,
    expectedMib: number,
    devices: Readonly<Record<string, DeviceFields>>,
    state?: "WARNING",
  ][] = [
    ["no device -> nothing lacks", 0, {}],
    ["one host -> nothing lacks", 0, { d1: HELD }],
    ["as much free elsewhere as the largest host has -> nothing lacks", 0, { d1: HELD, d2: ON_2 }],
    ["two full hosts -> all bytes of the larger one", 128, { d1: HELD, d2: HELD, d3: { ...HELD, ...ON_2 } }],
    ["bytes to be erased elsewhere -> nothing lacks", 0, { d1: HELD, d2: { ...ON_2, dirty: true } }],
    [
      "free bytes of another pool -> they do not help",
      64,
      { d1: HELD, d2: { ...HELD, ...ON_2 }, d3: { ...ON_2, pool: "slow" } },
    ],
    [
      "a host that takes nothing new -> its free bytes do not help",
      64,
      { d1: {}, d2: { ...HELD, ...ON_2 }, d3: HELD },
      "WARNING",
    ],
    [
      "a device out of operation -> it is not there",
      0,
      { d1: HELD, d2: { ...HELD, ...ON_2, attachState: "DETACHED" } },
    ],
  ];
  for (const [title, expectedMib, devices, state = "ONLINE"] of rows)
    it(title, () => {
      const docs = Object.entries(devices).map(([id, fields]) => aDevice(id, fields));
      const disks = [aDisk("a", ["d1"])];
      const { tables } = new TestFleet({ hosts: [aHost("h1", { state }), aHost("h2")], devices: docs, disks });
      const room = new RepairRoom();
      // Each is seen a second time as a change, from nothing in operation.
      for (const host of tables.hosts.entries()) room.hosts.changed(host.hostId, host, null);
      for (const disk of tables.disks.entries()) room.disks.changed(disk.diskId, disk, null);
      for (const device of tables.devices.entries()) {
        const before = { ...device, attachState: "ATTACHING" } as const;
        room.devices.changed(device.deviceId, before, null);
        room.devices.changed(device.deviceId, device, before);
      }
      expect(room.missingBytes()).to.equal(expectedMib * MIB);
      expect(missingIn(tables)).to.equal(expectedMib * MIB);
    });

  it("forgets hosts, devices and deleted disks that are gone", () => {
    const room = new RepairRoom();
    const [h1, h2, d1, d2] = [aHost("h1"), aHost("h2"), aDevice("d1", HELD), aDevice("d2", { ...HELD, ...ON_2 })];
    for (const host of [h1, h2]) room.hosts.changed(host.hostId, host, null);
    for (const device of [d1, d2]) room.devices.changed(device.deviceId, device, null);
    expect(room.missingBytes()).to.equal(64 * MIB);
    const deleted = { ...aDisk("a", ["d2"]), sizeBytes: 64 * MIB, deleted: { by: "ann", atMs: 1, untilMs: 2 } };
    room.disks.changed("a", deleted as never, null);
    expect(room.missingBytes(), "with the bytes of a deleted disk").to.equal(0);
    room.disks.changed("a", null, deleted as never);
    room.devices.changed("d2", null, d2);
    expect(room.missingBytes(), "with one host").to.equal(0);
    room.devices.changed("d2", d2, null);
    room.hosts.changed("h2", null, h2);
    expect(room.missingBytes(), "without the other host").to.equal(0);
  });
});
