import { expect } from "chai";
import {
  aDevice,
  aDisk,
  aHost,
  type DeviceFields,
  diskId,
  hostId,
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import type { Host } from "../store/schema.js";
import { capacityOf } from "./capacity.js";
import { NOBODY_SUSPECTED } from "./placement.js";

const options = { whySuspected: NOBODY_SUSPECTED, maxDevices: 2 };

describe("capacity", () => {
  it("sums the attached devices by az and pool; the largest disk has the maximum number of devices", () => {
    const h3 = { hostId: hostId("h3") };
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2"), aHost("h3", { az: "z0" })],
      devices: [
        aDevice("d1", { sizeBytes: 3 * MIB }),
        aDevice("d2", { sizeBytes: 1 * MIB }),
        aDevice("d3", { sizeBytes: 2 * MIB, hostId: hostId("h2") }),
        aDevice("d4", { sizeBytes: 9 * MIB, diskId: diskId("x") }),
        aDevice("d5", { sizeBytes: 5 * MIB, pool: "fast" }),
        aDevice("d6", { sizeBytes: 7 * MIB, ...h3 }),
        aDevice("d7", { sizeBytes: 8 * MIB, ...h3, attachState: "UNKNOWN" }),
      ],
    });
    const inMib = (filter: Parameters<typeof capacityOf>[1]) =>
      capacityOf(fleet.tables, filter, options).map(
        ({ az, pool, totalBytes, freeBytes, maxDiskBytes, maxPartBytes }) =>
          `${az} ${pool}: ${[totalBytes, freeBytes, maxDiskBytes, maxPartBytes].map((bytes) => bytes / MIB).join(" ")}`,
      );
    const [z0, slow, fast] = ["z0 default: 7 7 7 7", "z1 default: 15 6 5 3", "z1 fast: 5 5 5 5"];
    expect(inMib({})).to.deep.equal([z0, slow, fast]);
    expect(inMib({ az: "z1" })).to.deep.equal([slow, fast]);
    expect(inMib({ pool: "fast" })).to.deep.equal([fast]);
    expect(inMib({ az: "z9" })).to.deep.equal([]);
  });

  it("is at most what a client can decode", () => {
    const sizeBytes = 2 ** 52;
    const devices = ["d1", "d2", "d3"].map((id) => aDevice(id, { sizeBytes }));
    const fleet = new TestFleet({ hosts: [aHost("h1")], devices });
    const most = { totalBytes: Number.MAX_SAFE_INTEGER, freeBytes: Number.MAX_SAFE_INTEGER };
    expect(capacityOf(fleet.tables, {}, { ...options, maxDevices: 3 })).to.deep.equal([
      {
        az: "z1",
        pool: "default",
        ...most,
        maxDiskBytes: Number.MAX_SAFE_INTEGER,
        maxPartBytes: sizeBytes,
        deletedBytes: 0,
      },
    ]);
  });

  it("tells the bytes of deleted disks that are kept, by az and pool", () => {
    const deleted = { by: "operator", atMs: 1, untilMs: 2 };
    const fleet = new TestFleet({
      hosts: [aHost("h1"), aHost("h2", { az: "z2" })],
      devices: [aDevice("d1"), aDevice("d2", { hostId: hostId("h2") }), aDevice("d3", { pool: "fast" })],
      disks: [
        aDisk("a", ["d1"], { deleted }),
        aDisk("b", ["d1"], { deleted }),
        aDisk("c", ["d1"]),
        aDisk("d", ["d2"], { az: "z2", deleted }),
      ],
    });
    const found = capacityOf(fleet.tables, {}, options);
    expect(found.map(({ az, pool, deletedBytes }) => `${az} ${pool} ${deletedBytes / MIB}`)).to.deep.equal([
      "z1 default 128",
      "z1 fast 0",
      "z2 default 64",
    ]);
  });

  const unusable: readonly [string, DeviceFields, Partial<Host>, boolean][] = [
    ["a dirty device", { dirty: true }, {}, false],
    ["a device in error", { health: "ERROR" }, {}, false],
    ["a device that leaves", { removalRequested: true }, {}, false],
    ["a host in WARNING", {}, { state: "WARNING" }, false],
    ["a host that leaves", {}, { removalRequested: true }, false],
    ["a suspected host", {}, {}, true],
  ];
  for (const [what, device, host, isSuspected] of unusable)
    it(`${what} counts in the total, not as free`, () => {
      const fleet = new TestFleet({ hosts: [aHost("h1", host)], devices: [aDevice("d1", device)] });
      const whySuspected = () => (isSuspected ? "silent" : undefined);
      const [pool] = capacityOf(fleet.tables, {}, { ...options, whySuspected });
      expect(pool).to.include({ totalBytes: 64 * MIB, freeBytes: 0, maxDiskBytes: 0, maxPartBytes: 0 });
    });
});
