import {
  AlreadyExistsError,
  InvalidArgumentError,
  InvalidStateError,
  NotFoundError,
  ResourceExhaustedError,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
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
  MIB,
  TestFleet,
} from "../../testing/fleet-fixture.js";
import { abandonEraseSession, beginErase, completeErase, recordEraseFailure } from "../devices/erase.js";
import { countingDevices, partsOn } from "../store/layout.js";
import type { Device, DiskRequest, Host, Publication } from "../store/schema.js";
import { createDisk, diskHealth, resizeDisk, setDiskLabels } from "./disks.js";

const limits = { maxDisks: 3, maxDevicesPerDisk: 8, erasingRetryAfterMs: 500 };
const wanted: DiskRequest = { sizeBytes: 100 * MIB, az: "z1", hostId: "", pool: "default", spreadRacks: false };
const published: Publication = {
  hostId: hostId("h1"),
  state: "PUBLISHED",
  sessionNumber: 5,
  exportPath: "/x",
  attempts: 0,
  lastError: "",
};
const x = diskId("x");
const d1 = deviceId("d1");

describe("disks", () => {
  const create = (fleet: TestFleet, request = wanted) =>
    fleet.transact((tx) => createDisk(tx, x, request, { labels: [] }, limits, { nowMs: 9, draw: 0 }));

  it("CreateDisk takes whole devices, in order, that know their disk", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", { blockSizeBytes: 512 }), aDevice("d2")] });
    const disk = create(fleet);
    expect(disk).to.deep.include({
      sizeBytes: 128 * MIB,
      blockSizeBytes: 4096,
      az: "z1",
      parts: partsOn([aDevice("d1"), aDevice("d2")]),
      requested: wanted,
    });
    expect(fleet.seen("d1").diskId).to.equal("x");
    expect(fleet.seen("d2").diskId).to.equal("x");
  });

  const mustRegister = { mustRegister: true } as const;
  const silent = { state: "UNAVAILABLE" } as const;
  const awaited: readonly [string, Partial<Host>, DeviceFields, boolean][] = [
    ["is to register anew", mustRegister, {}, true],
    ["was UNAVAILABLE for the leader before, and may yet be heard", { ...silent, hostId: hostId("new") }, {}, true],
    ["is UNAVAILABLE, and was not heard for long", silent, {}, false],
    ["is to register anew, and to be removed", { ...mustRegister, removalRequested: true }, {}, false],
    ["is DEAD", { ...mustRegister, state: "DEAD" }, {}, false],
    ["is to register anew, its device dirty", mustRegister, { dirty: true }, true],
    ["is to register anew, its device of a disk", mustRegister, { diskId: diskId("y") }, false],
    ["is to register anew, its device too small", mustRegister, { sizeBytes: MIB }, false],
  ];
  for (const [cause, host, device, passes] of awaited)
    it(`the only host ${cause} -> ${passes ? "UNAVAILABLE, to be tried again" : "RESOURCE_EXHAUSTED"}`, () => {
      const one = aHost("h1", host);
      const free = aDevice("d1", { hostId: one.hostId, sizeBytes: 128 * MIB, ...device });
      const fleet = new TestFleet({ hosts: [one], devices: [free] });
      const mayYetBeHeard = (id: string) => id === "new";
      const asked = () =>
        fleet.transact((tx) => createDisk(tx, x, wanted, { labels: [] }, limits, { nowMs: 9, draw: 0, mayYetBeHeard }));
      const [kind, says] = passes
        ? [UnavailableError, `1 host has not registered yet with this registry, and may have room: ${one.hostId}`]
        : [ResourceExhaustedError, "add devices or delete disks"];
      expect(asked)
        .to.throw(kind, says)
        .with.property("retryAfterMs", passes ? 500 : undefined);
    });

  it("a shortage names devices that await an operator's decision or are overridden", () => {
    const said = { by: "operator ada", atMs: 1, reason: "smells", health: "WARNING" } as const;
    const unwell = {
      health: "WARNING",
      keptHealth: { said, reported: { health: "ONLINE", healthMessage: "" } },
    } as const;
    const unknownSession = { sessionNumber: 7, diskId: diskId("z") };
    const devices = [
      aDevice("d1", unwell),
      aDevice("d2", { unknownSession }),
      aDevice("d3", { unknownSession }),
      aDevice("d4", { ...unwell, pool: "fast" }),
      aDevice("d5", { ...unwell, diskId: diskId("y") }),
    ];
    expect(() => create(new TestFleet({ devices })))
      .to.throw(ResourceExhaustedError, "2 devices are held by an unknown disk until somebody decides about them")
      .with.property("message")
      .that.contains("1 device is kept from use by an operator's SetDeviceState");
  });

  it("the same request finds the same disk, a different one gets ALREADY_EXISTS with the difference", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2")] });
    const disk = create(fleet);
    expect(create(fleet)).to.deep.equal(disk);
    const differently: Partial<DiskRequest>[] = [
      { sizeBytes: 1 },
      { az: "z2" },
      { hostId: hostId("h1") },
      { pool: "fast" },
      { spreadRacks: true },
    ];
    for (const change of differently) {
      const field = Object.keys(change)[0] as string;
      expect(() => create(fleet, { ...wanted, ...change }), field).to.throw(AlreadyExistsError, field);
    }
  });

  it("a shortage changes nothing, and has retry-after only when erases will help", async () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2", { dirty: true })] });
    const error = await rejection(() => create(fleet), ResourceExhaustedError, "1 device is being erased");
    expect(error.retryAfterMs).to.equal(500);
    const tooLarge = { ...wanted, sizeBytes: 1000 * MIB };
    const hopeless = await rejection(() => create(fleet, tooLarge), ResourceExhaustedError, "a disk of");
    expect(hopeless.retryAfterMs).to.equal(undefined);
    expect(fleet.seen("d1").diskId).to.equal("");
    expect(fleet.tables.disks.size).to.equal(0);
  });

  describe("resize", () => {
    const small = { ...wanted, sizeBytes: 10 * MIB };
    const resize = (fleet: TestFleet, sizeMib: number) =>
      fleet.transact((tx) => resizeDisk(tx, x, sizeMib * MIB, limits, { draw: 0 }));

    it("appends devices when larger, and keeps the original request, which still finds the disk", () => {
      const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2"), aDevice("d3")] });
      create(fleet, small);
      const [first] = countingDevices(fleet.disk("x"));
      const resized = resize(fleet, 130);
      expect(resized).to.deep.include({ sizeBytes: 192 * MIB, requested: small });
      expect(countingDevices(resized)).to.have.length(3);
      expect(countingDevices(resized)[0]).to.equal(first);
      expect(["d1", "d2", "d3"].map((id) => fleet.seen(id).diskId)).to.deep.equal(["x", "x", "x"]);
      expect(create(fleet, small)).to.deep.equal(resized);
    });

    it("does not append a device that the disk has lost and still names", () => {
      const fleet = new TestFleet({ devices: [aDevice("d1")] });
      create(fleet, small);
      fleet.transact((tx) => tx.devices.put(aDevice("d1")));
      expect(() => resize(fleet, 130)).to.throw(ResourceExhaustedError);
    });

    it("changes nothing when not larger, and is refused below the original size", () => {
      const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2")] });
      const disk = create(fleet, small);
      for (const sizeMib of [10, 20, 64]) expect(resize(fleet, sizeMib)).to.deep.equal(disk);
      expect(() => resize(fleet, 9)).to.throw(InvalidArgumentError, "shrink");
    });

    it("appends devices of the host that serves the disk, where it has some", () => {
      const hosts = [aHost("h1"), aHost("h2")];
      const far = { hostId: hostId("h2") };
      const devices = [aDevice("d1"), aDevice("d2", far), aDevice("d3", far), aDevice("d4")];
      for (const [served, added] of [
        ["h1", "d4"],
        ["h2", "d2"],
      ] as const) {
        const publication = { ...published, hostId: hostId(served) };
        const fleet = new TestFleet({ hosts, devices, disks: [aDisk("x", ["d1"], { publication })] });
        fleet.transact((tx) => tx.devices.put(aDevice("d1", { diskId: x })));
        expect(countingDevices(resize(fleet, 65))).to.deep.equal(["d1", added]);
      }
    });

    it("refuses devices of another pool, az or larger blocks, and too few, too many or dirty ones", () => {
      const others: Device[][] = [
        [aDevice("d2", { pool: "fast" })],
        [aDevice("d2", { hostId: hostId("h2") })],
        [aDevice("d2", { dirty: true })],
        [aDevice("d2", { blockSizeBytes: 8192 })],
        [aDevice("d2", { attachState: "CLOSING" })],
        [],
      ];
      for (const free of others) {
        const fleet = new TestFleet({
          hosts: [aHost("h1"), aHost("h2", { az: "z2" })],
          devices: [aDevice("d1"), ...free],
        });
        const disk = create(fleet, small);
        expect(() => resize(fleet, 65), JSON.stringify(free)).to.throw(ResourceExhaustedError, "does not fit");
        expect(fleet.tables.disks.get(x)).to.deep.equal(disk);
        if (free.length > 0) expect(fleet.seen("d2").diskId).to.equal("");
      }
      const devices = Array.from({ length: 9 }, (_, index) => aDevice(`d${index}`));
      const fleet = new TestFleet({ devices });
      create(fleet, small);
      expect(countingDevices(resize(fleet, 8 * 64))).to.have.length(8);
      expect(() => resize(fleet, 9 * 64)).to.throw(ResourceExhaustedError);
    });

    it("is refused while a host serves the disk that cannot enlarge it", () => {
      const publication = { ...published, fixedSize: true } as const;
      const fleet = new TestFleet({
        devices: [aDevice("d1", { diskId: x }), aDevice("d2")],
        disks: [aDisk("x", ["d1"], { publication })],
      });
      expect(() => resize(fleet, 100)).to.throw(InvalidStateError, "h1, which cannot enlarge it");
      expect(resize(fleet, 64)).to.deep.equal(fleet.disk("x"));
    });

    it("answers NOT_FOUND for an unknown disk", () => {
      expect(() => resize(new TestFleet({}), 10)).to.throw(NotFoundError, "x");
    });
  });

  it("an unknown host, one of another az, and one disk too many are refused by name", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1")] });
    expect(() => create(fleet, { ...wanted, hostId: hostId("h9") })).to.throw(NotFoundError, "h9");
    expect(() => create(fleet, { ...wanted, hostId: hostId("h1"), az: "z2" })).to.throw(InvalidStateError, "z1");
    const full = new TestFleet({ disks: [aDisk("a", []), aDisk("b", []), aDisk("c", [])] });
    expect(() => create(full)).to.throw(ResourceExhaustedError, "disks of a registry: delete disks first");
  });

  it("a request with only a host gets that host's az", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1")] });
    expect(create(fleet, { ...wanted, sizeBytes: 1, az: "", hostId: hostId("h1") }).az).to.equal("z1");
  });

  it("DeleteDisk frees the devices as dirty, succeeds again, and is refused while published", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2")] });
    create(fleet);
    expect(fleet.transact((tx) => deletedNow(tx, x))).to.deep.equal(["d1", "d2"]);
    expect(fleet.seen("d1")).to.include({ diskId: "", dirty: true });
    expect(fleet.tables.disks.has("x")).to.equal(false);
    expect(fleet.transact((tx) => deletedNow(tx, x))).to.deep.equal([]);
    const inUse = new TestFleet({ disks: [aDisk("x", [], { publication: published })] });
    expect(() => inUse.transact((tx) => deletedNow(tx, x))).to.throw(InvalidStateError, "PUBLISHED to host h1");
  });

  it("DeleteDisk leaves a device alone that was purged and given to another disk", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1", { diskId: diskId("other") })],
      disks: [aDisk("x", ["d1", "gone"])],
    });
    expect(fleet.transact((tx) => deletedNow(tx, x))).to.deep.equal([]);
    expect(fleet.seen("d1")).to.include({ diskId: "other", dirty: false });
  });

  it("SetLabels replaces all labels, and answers NOT_FOUND for an unknown disk", () => {
    const fleet = new TestFleet({ disks: [aDisk("x", [], { labels: [{ name: "a", value: "1" }] })] });
    const labels = [{ name: "b", value: "2" }];
    expect(fleet.transact((tx) => setDiskLabels(tx, x, labels)).labels).to.deep.equal(labels);
    expect(() => fleet.transact((tx) => setDiskLabels(tx, diskId("y"), labels))).to.throw(NotFoundError);
  });

  const healths: readonly [string, DeviceFields | undefined, Partial<Host>, string][] = [
    ["all well", {}, {}, "ONLINE"],
    ["a device in WARNING", { health: "WARNING" }, {}, "WARNING"],
    ["a host in WARNING", {}, { state: "WARNING" }, "WARNING"],
    ["a device in ERROR", { health: "ERROR" }, {}, "ERROR"],
    ["a device not ATTACHED", { attachState: "ATTACHING" }, {}, "ERROR"],
    ["a host UNAVAILABLE", {}, { state: "UNAVAILABLE" }, "ERROR"],
    ["a device purged", undefined, {}, "ERROR"],
  ];
  for (const [cause, device, host, health] of healths) {
    it(`${cause} -> the disk is ${health}`, () => {
      const devices = device === undefined ? [] : [aDevice("d1", { diskId: x, ...device })];
      const fleet = new TestFleet({ hosts: [aHost("h1", host)], devices, disks: [aDisk("x", ["d1"])] });
      const found = diskHealth(fleet.tables, fleet.disk("x"));
      expect(found.health).to.equal(health);
      expect(found.message === "").to.equal(health === "ONLINE");
    });
  }
});

describe("erase", () => {
  const dirty = (fields: DeviceFields = {}) => aDevice("d1", { dirty: true, ...fields });

  it("begins with a session of its own, and keeps it when begun again", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(201);
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(201);
    expect(fleet.changes((tx) => beginErase(tx, d1))).to.equal(0);
  });

  it("makes the device clean under the current session only", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    fleet.transact((tx) => beginErase(tx, d1));
    expect(fleet.transact((tx) => completeErase(tx, d1, 200))).to.equal(false);
    expect(fleet.seen("d1").dirty).to.equal(true);
    expect(fleet.transact((tx) => completeErase(tx, d1, 201))).to.equal(true);
    expect(fleet.seen("d1")).to.include({ dirty: false, eraseSessionNumber: 0 });
  });

  it("takes a new session after OUTDATED or a device error, and keeps the reason", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    fleet.transact((tx) => beginErase(tx, d1));
    fleet.transact((tx) => abandonEraseSession(tx, d1, 201, "EIO"));
    expect(fleet.device("d1").lastError).to.equal("erase: EIO");
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(202);
  });

  it("keeps the error of a failed try until it is done", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    fleet.transact((tx) => beginErase(tx, d1));
    fleet.transact((tx) => recordEraseFailure(tx, d1, 201, "EIO"));
    expect(fleet.device("d1").lastError).to.equal("erase: EIO");
    fleet.transact((tx) => completeErase(tx, d1, 201));
    expect(fleet.device("d1").lastError).to.equal("");
  });

  it("keeps the error of an order that fails meanwhile, instead of its own", () => {
    const fleet = new TestFleet({ devices: [dirty({ eraseSessionNumber: 201, attempts: 1, lastError: "erase: no" })] });
    fleet.transact((tx) => recordEraseFailure(tx, d1, 201, "EIO"));
    fleet.transact((tx) => completeErase(tx, d1, 201));
    expect(fleet.seen("d1")).to.include({ dirty: false, lastError: "erase: no" });
  });

  it("runs for a device under removal, which is not counted as free soon", () => {
    const fleet = new TestFleet({ devices: [dirty({ removalRequested: true })] });
    const create = () =>
      fleet.transact((tx) =>
        createDisk(tx, x, { ...wanted, sizeBytes: MIB }, { labels: [] }, limits, { nowMs: 0, draw: 0 }),
      );
    expect(create).to.throw(ResourceExhaustedError, "add devices");
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(201);
    expect(fleet.transact((tx) => completeErase(tx, d1, 201))).to.equal(true);
    expect(fleet.tables.devices.count("freeByHost", "h1"), "free").to.equal(0);
  });

  const refused: readonly [string, DeviceFields, Partial<Host>][] = [
    ["clean", { dirty: false }, {}],
    ["of a disk", { diskId: x }, {}],
    ["not ATTACHED", { attachState: "ATTACHING" }, {}],
    ["in ERROR", { health: "ERROR" }, {}],
    ["to be removed as it is", { removalRequested: true, keepData: true }, {}],
    ["of an UNAVAILABLE host", {}, { state: "UNAVAILABLE" }],
  ];
  for (const [cause, device, host] of refused) {
    it(`${cause} -> not erased`, () => {
      const fleet = new TestFleet({ hosts: [aHost("h1", host)], devices: [dirty(device)] });
      expect(fleet.transact((tx) => beginErase(tx, d1))).to.equal(undefined);
    });
  }
});
