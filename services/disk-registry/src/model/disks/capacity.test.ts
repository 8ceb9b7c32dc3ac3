import { ResourceExhaustedError } from "@diskmesh/domain";
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
import type { Device, Host } from "../store/schema.js";
import { capacityOf } from "./capacity.js";
import { createDisk, resizeDisk } from "./disks.js";
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
        soonFreeBytes: Number.MAX_SAFE_INTEGER,
        repairBytes: 0,
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

  const [a, b] = [diskId("a"), diskId("b")];
  const on2 = { hostId: hostId("h2") };
  const repair: readonly [string, readonly Device[], number, number, Partial<Host>][] = [
    ["one host -> none", [aDevice("d1", { diskId: a })], 0, 0, {}],
    ["no disk -> the larger host", [aDevice("d1"), aDevice("d2", on2), aDevice("d3", on2)], 192, 128, {}],
    ["a disk on one of two hosts -> its host", [aDevice("d1", { diskId: a }), aDevice("d2", on2)], 64, 64, {}],
    [
      "disks on both -> the host with most bytes",
      [aDevice("d1", { diskId: a }), aDevice("d2", { ...on2, diskId: b }), aDevice("d3", on2)],
      64,
      128,
      {},
    ],
    [
      "bytes to be erased -> are free soon",
      [aDevice("d1", { diskId: a }), aDevice("d2", { ...on2, dirty: true })],
      64,
      64,
      {},
    ],
    [
      "free bytes on a host that takes nothing new -> are not free, and need no repair",
      [aDevice("d1"), aDevice("d2", { diskId: a }), aDevice("d3", on2)],
      64,
      64,
      { state: "WARNING" },
    ],
  ];
  for (const [cause, devices, soonFreeMib, repairMib, h1] of repair)
    it(`what must stay free to empty a host: ${cause}`, () => {
      const fleet = new TestFleet({ hosts: [aHost("h1", h1), aHost("h2")], devices });
      const [pool] = capacityOf(fleet.tables, {}, options);
      expect(pool).to.include({ soonFreeBytes: soonFreeMib * MIB, repairBytes: repairMib * MIB });
    });

  it("a pool that keeps repair room refuses what would leave too little, and nothing else", () => {
    const disks = [aDisk("a", ["d1"])];
    const devices = [aDevice("d1", { diskId: a }), aDevice("d2", on2), aDevice("d3", on2), aDevice("d4")];
    const fleet = new TestFleet({ hosts: [aHost("h1"), aHost("h2")], devices, disks });
    const request = { az: "z1", hostId: "", pool: "default", spreadRacks: false } as const;
    const limits = { maxDisks: 9, maxDevicesPerDisk: 8, erasingRetryAfterMs: 1 };
    const keeps = { ...limits, keepsRepairRoom: (pool: string) => pool === "default" };
    const create = (mib: number) =>
      fleet.transact((tx) =>
        createDisk(tx, b, { ...request, sizeBytes: mib * MIB }, { labels: [] }, keeps, { nowMs: 1, draw: 0 }),
      );
    expect(() => create(65)).to.throw(ResourceExhaustedError, `would leave ${127 * MIB} bytes`);
    expect(() => create(65)).to.throw(`${128 * MIB} have to stay free`);
    expect(() => create(193), "more than there is").to.throw("does not fit into pool default");
    expect(create(64).sizeBytes).to.equal(64 * MIB);
    const resize = (kept: typeof keeps | typeof limits) =>
      fleet.transact((tx) => resizeDisk(tx, b, 65 * MIB, kept, { draw: 0 }));
    expect(() => resize(keeps)).to.throw(`${MIB} more bytes of disks would leave ${127 * MIB} bytes`);
    expect(resize(limits).sizeBytes).to.equal(128 * MIB);
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
