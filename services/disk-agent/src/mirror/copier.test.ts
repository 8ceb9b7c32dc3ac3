import { randomBytes } from "node:crypto";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  type DeviceId,
  type DiskId,
  type HostId,
  InvalidArgumentError,
  OutdatedError,
  silentLogger,
  UnavailableError,
} from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { systemClock } from "@diskmesh/service";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import type { DiskPart } from "../parts/disk-part.js";
import { type OpenPart, openPart } from "../parts/open-part.js";
import { DeviceFixture, LEADER, makeDeviceFile } from "../testing/device-fixture.js";
import { Copier, type CopyOrder } from "./copier.js";

const CHUNK_BYTES = 4_096;
const CHUNKS = 32;
const SIZE_BYTES = CHUNKS * CHUNK_BYTES;

describe("a copy of a device", () => {
  let fixture: DeviceFixture;
  let copier: Copier;
  let makeCopier: () => Copier;
  let data: Buffer;
  /** Reads of the source from this byte on fail. */
  let awayFromBytes = Number.POSITIVE_INFINITY;
  /** True: flushes of the source fail. */
  let failsFlush = false;

  beforeEach(async () => {
    fixture = new DeviceFixture(["a", "b"].map((id) => ({ id, file: id })));
    data = randomBytes(SIZE_BYTES);
    writeFileSync(join(fixture.folder, "a"), data);
    makeDeviceFile(fixture.folder, "b", SIZE_BYTES);
    for (const id of ["a", "b"]) {
      await fixture.order("attach", id, 1);
      await fixture.openSession(id, 1);
    }
    const { devices } = fixture;
    const hostId = "host-1" as HostId;
    const openRemotePart = () => expect.fail("all devices are local");
    const openAny = openPart({ hostId, devices, openRemotePart, clock: systemClock, ioTimeoutMs: 200 });
    const open: OpenPart = (device, disk, now) => {
      const part = openAny(device, disk, now);
      if (device.deviceId !== "a") return part;
      const read: DiskPart["read"] = async (offsetBytes, lengthBytes) => {
        if (offsetBytes >= awayFromBytes) throw new UnavailableError("device a is away");
        return part.read(offsetBytes, lengthBytes);
      };
      const flush: DiskPart["flush"] = async () => {
        if (failsFlush) throw new Error("the drive is gone");
      };
      return Object.assign(Object.create(part), { read, flush, close: () => part.close() });
    };
    const limits = { chunkBytes: CHUNK_BYTES, maxInFlight: 4, flushEveryBytes: 8 * CHUNK_BYTES };
    const { ledger } = fixture;
    makeCopier = () => new Copier({ devices, ledger, openPart: open, clock: systemClock, limits, log: silentLogger });
    copier = makeCopier();
  });
  afterEach(async () => {
    fixture.files.writes.open();
    copier.stop();
    await fixture.stop();
  });

  /** Token of the last answer. */
  let token = "";
  const source = (deviceId = "a") => ({
    deviceId: deviceId as DeviceId,
    hostId: "host-1" as HostId,
    sizeBytes: SIZE_BYTES,
    blockAddress: "",
    sessionKey: "",
  });
  const copy = async (change: Partial<CopyOrder> = {}) => {
    const order: CopyOrder = {
      diskId: "disk-1" as DiskId,
      sessionNumber: 1,
      source: source(),
      deviceId: "b" as DeviceId,
      offsetBytes: 0,
      sizeBytes: SIZE_BYTES,
      bytesPerSecond: 0,
      resumeToken: "",
      copiedBytes: 0,
      ...change,
    };
    const { outcome, copiedBytes, resumeToken } = await copier.copy(order, { ...LEADER, deviceGeneration: 0 });
    token = resumeToken;
    return { outcome: outcome.outcome, message: outcome.message, copiedBytes };
  };
  const target = () => readFileSync(join(fixture.folder, "b"));
  const DONE = { outcome: "done", message: "", copiedBytes: SIZE_BYTES };

  it("is done once all bytes are on the target and flushed", async () => {
    expect(await copy()).to.deep.equal(DONE);
    expect(target().equals(data)).to.equal(true);
    const { syncCount } = fixture.files;
    expect(syncCount, "one flush for each 8 chunks, of which some are one, and the last one").to.be.within(2, 5);
    expect(await copy(), "repeated").to.deep.equal(DONE);
    expect(fixture.files.syncCount).to.equal(syncCount);
  });

  it("copies as much as is asked for", async () => {
    expect(await copy({ sizeBytes: 10 * CHUNK_BYTES + 512 })).to.include({ outcome: "done" });
    const copied = Buffer.concat([data.subarray(0, 10 * CHUNK_BYTES + 512), Buffer.alloc(SIZE_BYTES)]);
    expect(target().equals(copied.subarray(0, SIZE_BYTES))).to.equal(true);
  });

  it("fails when the last flush fails, and begins anew with the next call", async () => {
    fixture.files.failNextSync = Object.assign(new Error("the drive is gone"), { code: "EIO" });
    expect(await copy({ sizeBytes: 4 * CHUNK_BYTES })).to.include({ outcome: "io_error" });
    expect(token).to.equal("");
    await fixture.order("attach", "b", 1);
    expect(target().subarray(0, CHUNK_BYTES).equals(data.subarray(0, CHUNK_BYTES))).to.equal(true);
    // The session has lost writes for good.
    await fixture.openSession("a", 2);
    await fixture.openSession("b", 2);
    expect(await copy({ sessionNumber: 2 })).to.deep.equal(DONE);
  });

  it("fails when the source fails, and names it", async () => {
    fixture.files.failNextRead = Object.assign(new Error("bad sector"), { code: "EIO" });
    const { outcome, message } = await copy();
    expect(outcome).to.equal("io_error");
    expect(message).to.match(/I\/O on device a failed: bad sector/);
    expect(await copy()).to.deep.equal(DONE);
  });

  /** Copies until the source is away, when some chunks are flushed. Returns how many bytes are. */
  const copyInPart = async (): Promise<number> => {
    awayFromBytes = 20 * CHUNK_BYTES;
    expect((await copy()).outcome).to.equal("io_error");
    awayFromBytes = Number.POSITIVE_INFINITY;
    const durableBytes = Number(token.split(":")[0]);
    expect(durableBytes).to.be.within(CHUNK_BYTES, 20 * CHUNK_BYTES);
    return durableBytes;
  };
  /** Copies the rest, and returns how many bytes were written. */
  const copyRest = async (change: Partial<CopyOrder> = {}): Promise<number> => {
    const before = fixture.files.writes.arrivals;
    expect(await copy(change)).to.deep.equal(DONE);
    expect(target().equals(data)).to.equal(true);
    return CHUNK_BYTES * (fixture.files.writes.arrivals - before);
  };
  const changeSource = (): void => {
    data = randomBytes(SIZE_BYTES);
    writeFileSync(join(fixture.folder, "a"), data);
  };

  it("goes on where it was flushed, once its source is there again", async () => {
    const durableBytes = await copyInPart();
    expect(await copyRest()).to.equal(SIZE_BYTES - durableBytes);
  });

  it("copies nothing from a source that cannot be flushed, whose bytes may change with its machine", async () => {
    failsFlush = true;
    expect(await copy()).to.include({ outcome: "io_error", copiedBytes: 0 });
    failsFlush = false;
    expect(await copyRest()).to.equal(SIZE_BYTES);
  });

  it("goes on in another session where the registry says, and says how far it is", async () => {
    const durableBytes = await copyInPart();
    for (const id of ["a", "b"]) await fixture.openSession(id, 2);
    awayFromBytes = durableBytes;
    const order = { sessionNumber: 2, copiedBytes: durableBytes, resumeToken: token };
    expect(await copy(order)).to.include({ outcome: "io_error", copiedBytes: durableBytes });
    awayFromBytes = Number.POSITIVE_INFINITY;
    expect(await copyRest({ ...order, copiedBytes: 0 })).to.equal(SIZE_BYTES - durableBytes);
  });

  it("goes on in a next life of the agent, which the registry tells its token", async () => {
    const durableBytes = await copyInPart();
    copier = makeCopier();
    expect(await copyRest({ resumeToken: token })).to.equal(SIZE_BYTES - durableBytes);
    copier = makeCopier();
    expect(await copyRest()).to.equal(SIZE_BYTES);
  });

  it("begins anew in another session, in which the source may have other bytes", async () => {
    await copyInPart();
    for (const id of ["a", "b"]) await fixture.openSession(id, 2);
    changeSource();
    const former = token;
    expect(await copyRest({ sessionNumber: 2, resumeToken: former })).to.equal(SIZE_BYTES);
    copier = makeCopier();
    expect(await copyRest({ sessionNumber: 2, resumeToken: former })).to.equal(SIZE_BYTES);
  });

  for (const isNextLife of [false, true])
    it(`begins anew after a detach of the target${isNextLife ? " before a next life" : ""}`, async () => {
      await copyInPart();
      const former = token;
      await eventually(async () => expect(await fixture.order("detach", "b", 2)).to.be.oneOf(["done", "already"]));
      await fixture.order("attach", "b", 3);
      if (isNextLife) copier = makeCopier();
      expect(await copyRest({ resumeToken: former })).to.equal(SIZE_BYTES);
    });

  it("is joined by a repeated call", async () => {
    fixture.files.writes.shut();
    const first = await copy();
    expect(first.outcome).to.equal("pending");
    expect((await copy()).outcome).to.equal("pending");
    fixture.files.writes.open();
    await eventually(async () => expect(await copy()).to.deep.equal(DONE));
    expect(fixture.files.writes.arrivals).to.equal(CHUNKS);
  });

  it("refuses another source in the same session", async () => {
    await copy();
    await rejection(copy({ source: source("c") }), OutdatedError, "use a new session number");
  });

  for (const device of ["a", "b"])
    it(`ends at once when device ${device} is opened in a higher session, and writes nothing after the grant`, async () => {
      fixture.files.writes.shut();
      expect((await copy()).outcome).to.equal("pending");
      const opened = await fixture.openSession(device, 2);
      expect(opened).to.equal(device === "b" ? "pending" : "done");
      fixture.files.writes.open();
      await eventually(async () => expect(await fixture.openSession(device, 2)).to.be.oneOf(["done", "already"]));
      if (device === "a") await eventually(async () => expect((await copy()).outcome).to.equal("outdated"));
      else expect((await copy()).outcome).to.equal("outdated");
      expect(fixture.files.writes.arrivals).to.equal(4);
    });

  it("clears zeros, and leaves no former bytes where the file cannot", async () => {
    for (const canPunchHoles of [true, false]) {
      fixture.files.canPunchHoles = canPunchHoles;
      writeFileSync(join(fixture.folder, "a"), Buffer.alloc(SIZE_BYTES));
      writeFileSync(join(fixture.folder, "b"), randomBytes(SIZE_BYTES));
      const number = canPunchHoles ? 2 : 3;
      await fixture.openSession("a", number);
      await fixture.openSession("b", number);
      expect(await copy({ sessionNumber: number })).to.deep.equal(DONE);
      expect(target().equals(Buffer.alloc(SIZE_BYTES))).to.equal(true);
      expect(statSync(join(fixture.folder, "b")).blocks === 0).to.equal(canPunchHoles);
    }
  });

  it("keeps to its rate", async () => {
    const startedMs = performance.now();
    expect(await copy({ bytesPerSecond: 100 * CHUNK_BYTES })).to.deep.equal(DONE);
    expect(performance.now() - startedMs).to.be.above(250);
  });

  it("takes up another rate from a repeated call", async () => {
    const startedMs = performance.now();
    // Takes 53 min.
    const slow = copy({ bytesPerSecond: CHUNK_BYTES / 100 });
    expect(await copy({ bytesPerSecond: 0 })).to.deep.equal(DONE);
    expect(await slow).to.deep.equal(DONE);
    expect(performance.now() - startedMs).to.be.below(120_000);
  });

  it("fails when the target was detached meanwhile", async () => {
    fixture.files.writes.shut();
    await copy();
    await fixture.order("detach", "b", 2);
    fixture.files.writes.open();
    await eventually(async () => expect(await fixture.order("detach", "b", 2)).to.be.oneOf(["done", "already"]));
    await fixture.order("attach", "b", 3);
    expect((await copy()).outcome).to.equal("io_error");
  });

  it("refuses what it cannot copy", async () => {
    expect((await copy({ deviceId: "x" as DeviceId })).outcome).to.equal("unknown_device");
    expect((await copy({ sessionNumber: 2 })).outcome).to.equal("pending");
    await rejection(copy({ sizeBytes: SIZE_BYTES + 1 }), InvalidArgumentError, `device b holds ${SIZE_BYTES} bytes`);
    await fixture.openSession("b", 2);
    expect((await copy()).outcome).to.equal("outdated");
  });
});
