import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { latestText } from "../cache/slots.js";
import { WHOLE_DEVICE } from "../model/runs.js";
import { DeviceFixture, LEADER, makeDeviceFile, runOf } from "../testing/device-fixture.js";

const SIZE = 16 * 4096;
const stamp = { ...LEADER, deviceGeneration: 0 };
const OLD = Buffer.alloc(4096, 1);
const NEW = Buffer.alloc(4096, 2);

describe("sessions", () => {
  let fixture: DeviceFixture;
  const write = (session: number, data: Buffer, options = {}) =>
    fixture.device("a").write(session, 0, data, { fua: false, ...options });
  const nameOf = (promise: Promise<unknown>) =>
    promise.then(
      () => "succeeded",
      (error: Error) => error.name,
    );
  const bytes = () => readFileSync(join(fixture.folder, "a")).subarray(0, 4096);

  beforeEach(async () => {
    fixture = await DeviceFixture.withAttached("a", SIZE);
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  it("allow I/O only in the granted session, and none after a fence", async () => {
    expect(await nameOf(write(1, OLD))).to.equal("UnavailableError");
    expect(await fixture.openSession("a", 1)).to.equal("done");
    expect(await fixture.openSession("a", 1)).to.equal("already");
    expect(await nameOf(write(1, OLD))).to.equal("succeeded");
    expect(await fixture.openSession("a", 2)).to.equal("done");
    expect(await nameOf(write(1, OLD))).to.equal("OutdatedError");
    expect(await nameOf(write(2, NEW))).to.equal("succeeded");
    expect(await fixture.openSession("a", 1)).to.equal("outdated");
    expect(await fixture.openSession("a", 3, "")).to.equal("done");
    expect(await nameOf(write(2, OLD))).to.equal("OutdatedError");
    expect(bytes()).to.deep.equal(NEW);
  });

  it("are pending while a lower one's write is in flight, and no byte of it lands after the grant", async () => {
    await fixture.openSession("a", 1);
    fixture.files.writes.shut();
    const inFlight = write(1, OLD);
    // More operations than the device's I/O limit, so that these wait in the agent's queue.
    const queued = Array.from({ length: 6 }, () => nameOf(write(1, OLD)));
    await eventually(() => fixture.files.writes.arrivals === 4);
    expect(await fixture.openSession("a", 2)).to.equal("pending");
    expect(() => fixture.device("a").checkAccess(2, 0)).to.throw(UnavailableError, "not granted yet");
    fixture.files.writes.open();
    expect(await fixture.openSession("a", 2)).to.equal("done");
    await inFlight;
    expect(fixture.files.writes.arrivals, "queued writes of the old session reached the file").to.equal(4);
    expect((await Promise.all(queued)).filter((name) => name === "OutdatedError")).to.have.length(3);
    await write(2, NEW);
    expect(await nameOf(write(1, OLD))).to.equal("OutdatedError");
    expect(bytes()).to.deep.equal(NEW);
  });

  it("waiting together: the higher one wins and the lower one is refused", async () => {
    await fixture.openSession("a", 1);
    fixture.files.writes.shut();
    const inFlight = write(1, OLD);
    await eventually(() => fixture.files.writes.arrivals === 1);
    const [second, third] = [fixture.openSession("a", 2), fixture.openSession("a", 3)];
    fixture.files.writes.open();
    expect(await Promise.all([second, third])).to.deep.equal(["outdated", "done"]);
    await inFlight;
  });

  it("are on disk before they are granted", async () => {
    await fixture.openSession("a", 7);
    const cache = JSON.parse(latestText(readFileSync(join(fixture.folder, "cache.json"), "utf8")));
    expect(cache.devices.a.sessions[0].number).to.equal(7);
  });

  it("are refused to another holder under the same number", async () => {
    expect(await fixture.openSession("a", 7)).to.equal("done");
    expect(await fixture.openSession("a", 7, "")).to.equal("outdated");
    await write(7, NEW);
  });

  it("need an attached device, except fences", async () => {
    await fixture.order("detach", "a", 2);
    expect(await fixture.openSession("a", 1)).to.equal("not_attached");
    expect(await fixture.openSession("a", 2, "")).to.equal("done");
    await fixture.order("attach", "a", 3);
    expect(await nameOf(write(1, OLD))).to.equal("OutdatedError");
    expect(await fixture.openSession("a", 3)).to.equal("done");
  });

  it("that are closed allow no I/O", async () => {
    await fixture.openSession("a", 1);
    const close = async () => (await fixture.sessions.close([runOf("a")], 1, stamp))[0]?.outcome;
    expect(await close()).to.equal("done");
    expect(await close()).to.equal("already");
    expect(await nameOf(write(1, OLD))).to.equal("OutdatedError");
  });

  it("refuse I/O outside the device, which touches nothing", async () => {
    await fixture.openSession("a", 1);
    for (const [offset, length] of [
      [SIZE, 1],
      [-1, 1],
      [SIZE - 1, 2],
      [2 ** 53, 1],
    ] as const) {
      const buffer = Buffer.alloc(length);
      expect(await nameOf(fixture.device("a").write(1, offset, buffer, { fua: false }))).to.equal(
        "InvalidArgumentError",
      );
      expect(await nameOf(fixture.device("a").read(1, offset, length))).to.equal("InvalidArgumentError");
    }
    expect(fixture.files.writes.arrivals).to.equal(0);
  });

  it("complete short reads and writes of the operating system", async () => {
    await fixture.openSession("a", 1);
    fixture.files.maxBytesPerCall = 1000;
    const data = Buffer.from(Array.from({ length: 4096 }, (_, index) => index % 251));
    await write(1, data);
    expect(bytes().equals(data)).to.equal(true);
    expect((await fixture.device("a").read(1, 1, 4095)).equals(data.subarray(1))).to.equal(true);
  });

  it("sync what was written on FUA and flush, and not on other writes", async () => {
    await fixture.openSession("a", 1);
    await write(1, OLD);
    expect(fixture.files.syncCount).to.equal(0);
    await write(1, OLD, { fua: true });
    expect(fixture.files.syncCount).to.equal(1);
    await fixture.device("a").flush(1, 0);
    expect(fixture.files.syncCount).to.equal(2);
  });

  it("remember a failed sync at the next one", async () => {
    await fixture.openSession("a", 1);
    await write(1, OLD);
    fixture.files.failNextSync = new Error("EIO: the drive is gone");
    expect(await nameOf(fixture.device("a").flush(1, 0))).to.equal("DeviceIoError");
    expect(await nameOf(fixture.device("a").flush(1, 0))).to.equal("DeviceIoError");
    expect(await nameOf(write(1, OLD, { fua: true }))).to.equal("DeviceIoError");
    await fixture.openSession("a", 2);
    expect(await nameOf(fixture.device("a").flush(2, 0))).to.equal("succeeded");
  });

  it("fail all concurrent syncs with a failed one, also of other devices of the file that wrote", async () => {
    const files = ["b", "c", "d"].map((id, index) => ({ id, file: "b", offsetBytes: index * SIZE, sizeBytes: SIZE }));
    const shared = new DeviceFixture(files);
    makeDeviceFile(shared.folder, "b", 3 * SIZE);
    for (const { id } of files) {
      await shared.order("attach", id, 1);
      await shared.openSession(id, 1);
    }
    for (const id of ["b", "c"]) await shared.device(id).write(1, 0, OLD, { fua: false });
    const flush = (id: string) => nameOf(shared.device(id).flush(1, 0));
    shared.files.failNextSync = new Error("EIO: the drive is gone");
    expect(await Promise.all(["b", "b", "c"].map(flush))).to.deep.equal(Array(3).fill("DeviceIoError"));
    expect(await Promise.all(["b", "c", "d"].map(flush))).to.deep.equal([
      "DeviceIoError",
      "DeviceIoError",
      "succeeded",
    ]);
    shared.files.failNextSync = new Error("EIO: the drive is gone");
    await shared.openSession("b", 2);
    await shared.device("b").write(2, 0, OLD, { fua: false });
    const first = flush("d");
    // The sync has begun by then, so later calls share the next sync.
    await new Promise(setImmediate);
    expect(await nameOf(shared.device("b").flush(2, 0)), "after the sync that failed").to.equal("DeviceIoError");
    expect(await first).to.equal("DeviceIoError");
    await shared.stop();
  });

  it("a new connection waits for the former one's writes, and its queued writes never begin", async () => {
    await fixture.openSession("a", 1);
    const device = fixture.device("a");
    const [first, second] = [new AbortController(), new AbortController()];
    device.granted.replaceConnection(0, first);
    fixture.files.writes.shut();
    const writes = Array.from({ length: 6 }, () => nameOf(write(1, OLD, { signal: first.signal })));
    await eventually(() => fixture.files.writes.arrivals === 4);
    device.granted.replaceConnection(0, second);
    expect(first.signal.aborted).to.equal(true);
    expect(device.isQuietBelow(2, WHOLE_DEVICE)).to.equal(false);
    fixture.files.writes.open();
    expect((await Promise.all(writes)).filter((name) => name === "succeeded")).to.have.length(4);
    expect(device.isQuietBelow(2, WHOLE_DEVICE)).to.equal(true);
  });
});

describe("erase", () => {
  let fixture: DeviceFixture;
  const erase = (session: number) => fixture.eraser.erase(runOf("a"), session, stamp);

  beforeEach(async () => {
    fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", SIZE);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
    await fixture.device("a").write(1, 0, Buffer.alloc(SIZE, 1), { fua: true });
  });

  afterEach(async () => {
    fixture.files.writes.open();
    await fixture.stop();
  });

  it("overwrites every byte, and reports that again when asked again", async () => {
    const { outcome, erasedBytes } = await erase(2);
    expect([outcome.outcome, erasedBytes]).to.deep.equal(["done", SIZE]);
    expect(readFileSync(join(fixture.folder, "a")).equals(Buffer.alloc(SIZE))).to.equal(true);
    const arrivals = fixture.files.writes.arrivals;
    expect((await erase(2)).outcome.outcome).to.equal("done");
    expect(fixture.files.writes.arrivals, "the device was erased twice").to.equal(arrivals);
  });

  it("is pending with its progress while slow, and is joined", async () => {
    fixture.files.writes.shut();
    const first = await erase(2);
    expect([first.outcome.outcome, first.erasedBytes]).to.deep.equal(["pending", 0]);
    fixture.files.writes.open();
    await eventually(async () => (await erase(2)).outcome.outcome === "done");
    // The one write before the erase covers the whole device.
    expect(fixture.files.writes.arrivals).to.equal(1 + SIZE / 4096);
  });

  it("fences off the earlier writer, and is superseded by a newer session", async () => {
    fixture.files.writes.shut();
    await erase(2);
    const late = fixture.device("a").write(1, 0, Buffer.alloc(1), { fua: false });
    expect(await late.catch((error: Error) => error.name)).to.equal("OutdatedError");
    const opened = fixture.openSession("a", 3);
    fixture.files.writes.open();
    expect(await opened).to.equal("done");
    const arrivals = fixture.files.writes.arrivals;
    expect((await erase(2)).outcome.outcome).to.equal("outdated");
    await fixture.device("a").write(3, 0, Buffer.alloc(SIZE, 3), { fua: false });
    expect(fixture.files.writes.arrivals, "the erase went on").to.equal(arrivals + 1);
    expect(readFileSync(join(fixture.folder, "a")).equals(Buffer.alloc(SIZE, 3))).to.equal(true);
  });

  it("runs again after a detach, because another drive may be there", async () => {
    expect((await erase(2)).outcome.outcome).to.equal("done");
    await fixture.order("detach", "a", 2);
    const other = join(fixture.folder, "a");
    rmSync(other);
    writeFileSync(other, Buffer.alloc(SIZE, 9));
    await fixture.order("attach", "a", 3);
    expect((await erase(2)).outcome.outcome).to.equal("done");
    expect(readFileSync(other).equals(Buffer.alloc(SIZE))).to.equal(true);
  });

  it("starts again after a detach and an attach during it", async () => {
    fixture.files.writes.shut();
    await erase(2);
    const detached = fixture.order("detach", "a", 2);
    fixture.files.writes.open();
    await detached;
    rmSync(join(fixture.folder, "a"));
    writeFileSync(join(fixture.folder, "a"), Buffer.alloc(SIZE, 9));
    await fixture.order("attach", "a", 3);
    await eventually(async () => (await erase(2)).outcome.outcome === "done");
    expect(readFileSync(join(fixture.folder, "a")).equals(Buffer.alloc(SIZE))).to.equal(true);
  });

  it("is refused for a detached device, and works once it is attached", async () => {
    await fixture.order("detach", "a", 2);
    expect((await erase(2)).outcome.outcome).to.equal("not_attached");
    await fixture.order("attach", "a", 3);
    expect((await erase(2)).outcome.outcome).to.equal("done");
  });
});
