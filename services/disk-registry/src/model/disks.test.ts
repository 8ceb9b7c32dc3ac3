import { AlreadyExistsError, InvalidStateError, NotFoundError, ResourceExhaustedError } from "@diskmesh/domain";
import { expect } from "chai";
import { aDevice, aDisk, aHost, deviceId, diskId, hostId, MIB, TestFleet } from "../testing/fleet-fixture.js";
import { createDisk, deleteDisk, diskHealth, setDiskLabels } from "./disks.js";
import { abandonEraseSession, beginErase, completeErase, recordEraseFailure } from "./erase.js";
import type { Device, DiskRequest, Host, Publication } from "./schema.js";

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
    fleet.transact((tx) => createDisk(tx, x, request, [], limits, 9));

  it("create -> whole devices, in order, that know their disk", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1", { blockSizeBytes: 512 }), aDevice("d2")] });
    const disk = create(fleet);
    expect(disk).to.deep.include({
      sizeBytes: 128 * MIB,
      blockSizeBytes: 4096,
      az: "z1",
      deviceIds: ["d1", "d2"],
      requested: wanted,
    });
    expect(fleet.device("d1").diskId).to.equal("x");
    expect(fleet.device("d2").diskId).to.equal("x");
  });

  it("the same again -> the same disk; asked differently -> ALREADY_EXISTS that names the difference", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2")] });
    const disk = create(fleet);
    expect(create(fleet)).to.equal(disk);
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

  it("no space -> nothing changes; retry-after only when erasing will help", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2", { dirty: true })] });
    const error = failure(() => create(fleet)) as ResourceExhaustedError;
    expect(error).to.be.instanceOf(ResourceExhaustedError);
    expect(error.message).to.contain("1 devices are being erased");
    expect(error.retryAfterMs).to.equal(500);
    const hopeless = failure(() => create(fleet, { ...wanted, sizeBytes: 1000 * MIB })) as ResourceExhaustedError;
    expect(hopeless.retryAfterMs).to.equal(undefined);
    expect(fleet.device("d1").diskId).to.equal("");
    expect(fleet.tables.disks.size).to.equal(0);
  });

  it("a host that is unknown, or of another az -> said so; one disk too many -> refused", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1")] });
    expect(() => create(fleet, { ...wanted, hostId: hostId("h9") })).to.throw(NotFoundError, "h9");
    expect(() => create(fleet, { ...wanted, hostId: hostId("h1"), az: "z2" })).to.throw(InvalidStateError, "z1");
    const full = new TestFleet({ disks: [aDisk("a", []), aDisk("b", []), aDisk("c", [])] });
    expect(() => create(full)).to.throw(ResourceExhaustedError, "limits.maxDisks");
  });

  it("only a host is named -> its az", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1")] });
    expect(create(fleet, { ...wanted, sizeBytes: 1, az: "", hostId: hostId("h1") }).az).to.equal("z1");
  });

  it("delete -> devices free and dirty; again -> a success; published -> refused", () => {
    const fleet = new TestFleet({ devices: [aDevice("d1"), aDevice("d2")] });
    create(fleet);
    expect(fleet.transact((tx) => deleteDisk(tx, x))).to.deep.equal(["d1", "d2"]);
    expect(fleet.device("d1")).to.include({ diskId: "", dirty: true });
    expect(fleet.tables.disks.has("x")).to.equal(false);
    expect(fleet.transact((tx) => deleteDisk(tx, x))).to.deep.equal([]);
    const inUse = new TestFleet({ disks: [aDisk("x", [], { publication: published })] });
    expect(() => inUse.transact((tx) => deleteDisk(tx, x))).to.throw(InvalidStateError, "PUBLISHED to host h1");
  });

  it("delete after a device was purged and given to another disk -> that one is left alone", () => {
    const fleet = new TestFleet({
      devices: [aDevice("d1", { diskId: diskId("other") })],
      disks: [aDisk("x", ["d1", "gone"])],
    });
    expect(fleet.transact((tx) => deleteDisk(tx, x))).to.deep.equal([]);
    expect(fleet.device("d1")).to.include({ diskId: "other", dirty: false });
  });

  it("labels -> replaced as a whole; of an unknown disk -> NOT_FOUND", () => {
    const fleet = new TestFleet({ disks: [aDisk("x", [], { labels: [{ name: "a", value: "1" }] })] });
    const labels = [{ name: "b", value: "2" }];
    expect(fleet.transact((tx) => setDiskLabels(tx, x, labels)).labels).to.deep.equal(labels);
    expect(() => fleet.transact((tx) => setDiskLabels(tx, diskId("y"), labels))).to.throw(NotFoundError);
  });

  const healths: readonly [string, Partial<Device> | undefined, Partial<Host>, string][] = [
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
  const dirty = (fields: Partial<Device> = {}) => aDevice("d1", { dirty: true, ...fields });

  it("begin -> a session of its own, the same when asked again", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(201);
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(201);
    expect(fleet.changes((tx) => beginErase(tx, d1))).to.equal(0);
  });

  it("done under the current session -> clean; under another -> still dirty", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    fleet.transact((tx) => beginErase(tx, d1));
    expect(fleet.transact((tx) => completeErase(tx, d1, 200))).to.equal(false);
    expect(fleet.device("d1").dirty).to.equal(true);
    expect(fleet.transact((tx) => completeErase(tx, d1, 201))).to.equal(true);
    expect(fleet.device("d1")).to.include({ dirty: false, eraseSessionNumber: 0 });
  });

  it("outdated at the agent, or failed on the device -> the next try takes a new session; why is kept", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    fleet.transact((tx) => beginErase(tx, d1));
    fleet.transact((tx) => abandonEraseSession(tx, d1, 201, "EIO"));
    expect(fleet.device("d1").lastError).to.equal("erase: EIO");
    expect(fleet.transact((tx) => beginErase(tx, d1))?.sessionNumber).to.equal(202);
  });

  it("a failed try -> its error is kept until the erase is done", () => {
    const fleet = new TestFleet({ devices: [dirty()] });
    fleet.transact((tx) => beginErase(tx, d1));
    fleet.transact((tx) => recordEraseFailure(tx, d1, 201, "EIO"));
    expect(fleet.device("d1").lastError).to.equal("erase: EIO");
    fleet.transact((tx) => completeErase(tx, d1, 201));
    expect(fleet.device("d1").lastError).to.equal("");
  });

  const refused: readonly [string, Partial<Device>, Partial<Host>][] = [
    ["clean", { dirty: false }, {}],
    ["of a disk", { diskId: x }, {}],
    ["not ATTACHED", { attachState: "ATTACHING" }, {}],
    ["in ERROR", { health: "ERROR" }, {}],
    ["to be removed", { removalRequested: true }, {}],
    ["of an UNAVAILABLE host", {}, { state: "UNAVAILABLE" }],
  ];
  for (const [cause, device, host] of refused) {
    it(`${cause} -> not erased`, () => {
      const fleet = new TestFleet({ hosts: [aHost("h1", host)], devices: [dirty(device)] });
      expect(fleet.transact((tx) => beginErase(tx, d1))).to.equal(undefined);
    });
  }
});

function failure(fn: () => unknown): unknown {
  try {
    fn();
  } catch (error) {
    return error;
  }
  throw new Error("it did not throw");
}
