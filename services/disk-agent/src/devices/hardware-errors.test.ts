import { statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";

const SIZE = 16 * 4096;
const EIO = Object.assign(new Error("EIO: i/o error, fsync"), { code: "EIO" });

describe("errors of I/O", () => {
  let fixture: DeviceFixture;
  const problem = (id = "a") => fixture.device(id).problem;
  const errors = () => fixture.devices.hardwareErrors;
  const unreported = () => errors().unreported(fixture.ledger.memory);
  const messages = () => [...unreported()].map(([deviceId, { message }]) => [deviceId, message]);
  const ageMs = () => [...unreported().values()][0]?.ageMs;
  const write = () => fixture.device("a").write(1, 0, Buffer.alloc(4096), { fua: true });
  const resize = (name: string, sizeBytes: number) => truncateSync(join(fixture.folder, name), sizeBytes);
  /** Checks the file as a rescan does. */
  const look = async (id: string) => {
    await fixture.device(id).file.look();
    fixture.device(id).retry();
  };
  const failed = (work: Promise<unknown>) => work.then(() => expect.fail("it succeeded"), String);

  beforeEach(async () => {
    fixture = new DeviceFixture([
      { id: "a", file: "a", sizeBytes: SIZE },
      { id: "s1", file: "shared", sizeBytes: SIZE / 2 },
      { id: "s2", file: "shared", offsetBytes: SIZE / 2, sizeBytes: SIZE / 2 },
    ]);
    for (const name of ["a", "shared"]) makeDeviceFile(fixture.folder, name, SIZE);
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
  });

  afterEach(() => fixture.stop());

  it("of the hardware stay ERROR over detach and attach until the registry was told, separately from the health", async () => {
    fixture.files.failNextSync = EIO;
    await failed(write());
    expect(problem()).to.deep.equal({ level: "ERROR", message: "I/O on device a failed: EIO: i/o error, fsync" });
    expect(messages()).to.deep.equal([["a", "I/O on device a failed: EIO: i/o error, fsync"]]);
    expect(fixture.device("a").problemNow).to.equal(undefined);
    await fixture.order("detach", "a", 2);
    await fixture.order("attach", "a", 3);
    expect(problem()?.level).to.equal("ERROR");
    errors().markReported(unreported());
    expect(messages()).to.deep.equal([]);
    expect(problem(), "the registry remembers it").to.equal(undefined);
  });

  it("of the hardware in a probe are reported like others, and again when they recur during the report", async () => {
    const fails = () => {
      fixture.files.failNextRead = EIO;
      return fixture.device("a").probe(0);
    };
    await fails();
    const reported = unreported();
    expect(messages()).to.deep.equal([["a", "reading block 0 of device a failed: EIO: i/o error, fsync"]]);
    await fails();
    errors().markReported(reported);
    expect(messages()).to.have.length(1);
    errors().markReported(unreported());
    expect(messages()).to.deep.equal([]);
  });

  it("of the hardware are reported with the age of the last one, whatever the clock is set to", async () => {
    fixture.files.failNextSync = EIO;
    await failed(write());
    fixture.aheadMs = 60_000;
    fixture.setByMs = -3_600_000;
    expect(ageMs()).to.be.within(60_000, 90_000);
    fixture.setByMs = 3_600_000;
    expect(ageMs()).to.be.within(60_000, 90_000);
    fixture.files.failNextRead = EIO;
    await fixture.device("a").probe(0);
    fixture.aheadMs += 1_000;
    expect(ageMs()).to.be.within(1_000, 30_000);
    expect(messages()).to.deep.equal([["a", "I/O on device a failed: EIO: i/o error, fsync"]]);
  });

  it("of the hardware that recur cost one cache write per second", async () => {
    const { ledger } = fixture;
    const writes = async () => {
      const before = ledger.stored;
      fixture.files.failNextRead = EIO;
      await fixture.device("a").probe(0);
      return (await ledger.durable()) !== before;
    };
    expect([await writes(), await writes(), await writes()]).to.deep.equal([true, false, false]);
    fixture.setByMs += 1_000;
    expect([await writes(), await writes()]).to.deep.equal([true, false]);
  });

  it("of other causes are ERROR until an operation succeeds", async () => {
    fixture.files.failNextRead = Object.assign(new Error("ENOSPC: no space left"), { code: "ENOSPC" });
    await failed(fixture.device("a").read(1, 0, 4096));
    expect(messages()).to.deep.equal([]);
    expect(problem()?.message).to.match(/ENOSPC/);
    await fixture.device("a").read(1, 0, 4096);
    expect(problem()).to.equal(undefined);
  });

  it("a truncated held file is ERROR, is not extended by I/O, and is ONLINE once it is whole", async () => {
    resize("a", SIZE / 2);
    expect(await failed(fixture.device("a").read(1, SIZE - 4096, 4096))).to.match(/the file ends at byte/);
    await eventually(() => fixture.device("a").whyChanged !== undefined);
    const written = fixture.device("a").write(1, SIZE - 4096, Buffer.alloc(4096), { fua: false });
    expect(await failed(written)).to.match(/has changed: .*has another size .*: its size was 64 KiB, is 32 KiB/);
    expect(await fixture.openSession("a", 2)).to.equal("device_changed");
    expect(statSync(join(fixture.folder, "a")).size).to.equal(SIZE / 2);
    expect(problem()?.level).to.equal("ERROR");
    resize("a", SIZE);
    await look("a");
    await fixture.device("a").probe(0.9);
    expect(problem()).to.equal(undefined);
    expect(await fixture.openSession("a", 2)).to.equal("done");
    await fixture.device("a").read(2, SIZE - 4096, 4096);
  });

  it("a grown held file is WARNING with the remedy, and its sessions and I/O continue", async () => {
    await fixture.stop();
    fixture = new DeviceFixture([{ id: "a", file: "a" }]);
    makeDeviceFile(fixture.folder, "a", SIZE);
    await look("a");
    const recorded = { offsetBytes: 0, sizeBytes: SIZE, blockSizeBytes: 4096, serialNumber: "" };
    const { fileIdentity } = fixture.device("a").reported;
    await fixture.order("attach", "a", 1, { ...recorded, fileIdentity });
    resize("a", 2 * SIZE);
    await look("a");
    expect(problem()).to.deep.include({ level: "WARNING" });
    expect(problem()?.message).to.match(/has grown from 64 KiB to 128 KiB: .*AddDevice/);
    expect(await fixture.order("attach", "a", 2, { ...recorded, fileIdentity })).to.equal("already");
    expect(await fixture.openSession("a", 1)).to.equal("done");
    expect(await failed(fixture.device("a").read(1, SIZE, 1))).to.match(/outside device a of 65536 bytes/);
    await fixture.device("a").read(1, 0, SIZE);
    await fixture.order("detach", "a", 3);
    expect(await fixture.order("attach", "a", 4, { ...recorded, fileIdentity })).to.equal("done");
    expect(fixture.device("a").sizeBytes).to.equal(SIZE);
    expect(problem()?.level).to.equal("WARNING");
  });

  it("a file too short to be attached is attached once it is whole", async () => {
    resize("shared", SIZE / 4);
    expect(await fixture.order("attach", "s2", 2)).to.equal("io_error");
    expect(problem("s2")?.message).to.match(/too short/);
    resize("shared", SIZE);
    await look("s2");
    expect(await fixture.order("attach", "s2", 2)).to.be.oneOf(["done", "already"]);
    expect(problem("s2")).to.equal(undefined);
  });

  it("a file too short for one device leaves the others ONLINE, and that one recovers once it is whole", async () => {
    resize("shared", SIZE / 2);
    expect(await fixture.order("attach", "s1", 2)).to.equal("done");
    expect(await fixture.order("attach", "s2", 3)).to.equal("io_error");
    resize("shared", SIZE);
    await look("s2");
    expect(problem("s1"), "its own bytes are as they were").to.equal(undefined);
    expect(fixture.device("s1").replaced).to.equal(false);
    expect(await fixture.order("attach", "s2", 3)).to.equal("already");
    expect(problem("s2")).to.equal(undefined);
  });
});
