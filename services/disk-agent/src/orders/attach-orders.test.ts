import { renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { ANSWER_TIMEOUT_MS, DeviceFixture, makeDeviceFile } from "../testing/device-fixture.js";

const SIZE = 16 * 4096;

describe("attach and detach orders on files", () => {
  let fixture: DeviceFixture;

  beforeEach(() => {
    fixture = new DeviceFixture([
      { id: "a", file: "a" },
      { id: "b", file: "b" },
      { id: "s1", file: "shared", sizeBytes: SIZE / 2 },
      { id: "s2", file: "shared", offsetBytes: SIZE / 2, sizeBytes: SIZE / 2 },
    ]);
    for (const name of ["a", "b", "shared"]) makeDeviceFile(fixture.folder, name, SIZE);
  });

  afterEach(async () => {
    fixture.files.opens.open();
    fixture.files.writes.open();
    await fixture.stop();
    expect(fixture.files.openCount, "descriptors left open").to.equal(0);
  });

  it("attach opens, detach closes, and both are idempotent", async () => {
    expect(await fixture.order("attach", "a", 1)).to.equal("done");
    expect(fixture.files.openCount).to.equal(1);
    expect(await fixture.order("attach", "a", 1)).to.equal("already");
    expect(await fixture.order("attach", "a", 2)).to.equal("already");
    expect(await fixture.order("detach", "a", 3)).to.equal("done");
    expect(fixture.files.openCount).to.equal(0);
    expect(await fixture.order("detach", "a", 3)).to.equal("already");
    expect(await fixture.order("attach", "a", 2)).to.equal("outdated");
    expect(await fixture.order("attach", "a", 3)).to.equal("outdated");
    expect(fixture.files.openCount).to.equal(0);
  });

  it("a slow open is pending, is joined by the same order, and delays no other device", async () => {
    fixture.files.opens.shut();
    expect(await fixture.order("attach", "a", 1)).to.equal("pending");
    expect(await fixture.order("attach", "a", 1)).to.equal("pending");
    expect(fixture.files.opens.arrivals).to.equal(1);
    const joined = fixture.order("attach", "a", 1);
    fixture.files.opens.open();
    expect(await joined).to.equal("done");
    expect(await fixture.order("attach", "b", 2)).to.equal("done");
  });

  it("an open that ends after a newer detach is closed, and the detach is pending until then", async () => {
    fixture.files.opens.shut();
    const attach = fixture.order("attach", "a", 1);
    await eventually(() => fixture.files.opens.arrivals === 1);
    expect(await fixture.order("detach", "a", 2)).to.equal("pending");
    expect(await attach).to.equal("outdated");
    fixture.files.opens.open();
    await eventually(() => fixture.device("a").file.phase === "closed");
    expect(fixture.files.openCount).to.equal(0);
    expect(await fixture.order("detach", "a", 2)).to.equal("already");
    expect(fixture.device("a").attached).to.equal(false);
  });

  it("a detach and an attach during an open leave one descriptor", async () => {
    fixture.files.opens.shut();
    expect(await fixture.order("attach", "a", 1)).to.equal("pending");
    expect(await fixture.order("detach", "a", 2)).to.equal("pending");
    expect(await fixture.order("attach", "a", 3)).to.equal("pending");
    fixture.files.opens.open();
    await eventually(async () => (await fixture.order("attach", "a", 3)) === "already");
    expect(fixture.files.openCount).to.equal(1);
    expect(fixture.files.opens.arrivals).to.equal(1);
  });

  it("devices on one path share a descriptor, which is closed with the last of them", async () => {
    expect(await fixture.order("attach", "s1", 1)).to.equal("done");
    expect(await fixture.order("attach", "s2", 2)).to.equal("done");
    expect(fixture.files.openCount).to.equal(1);
    expect(await fixture.order("detach", "s1", 3)).to.equal("done");
    expect(fixture.device("s1").attached).to.equal(false);
    expect(fixture.device("s2").attached).to.equal(true);
    expect(fixture.files.openCount).to.equal(1);
    expect(await fixture.order("detach", "s2", 4)).to.equal("done");
    expect(fixture.files.openCount).to.equal(0);
  });

  it("a detach waits for I/O in flight and refuses new I/O at once", async () => {
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
    fixture.files.writes.shut();
    const write = fixture.device("a").write(1, 0, Buffer.alloc(4096, 1), { fua: false });
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(await fixture.order("detach", "a", 2)).to.equal("pending");
    expect(fixture.files.openCount).to.equal(1);
    const refused = await fixture
      .device("a")
      .write(1, 0, Buffer.alloc(1), { fua: false })
      .catch((error) => error);
    expect(refused).to.have.property("name", "UnavailableError");
    const detach = fixture.order("detach", "a", 2);
    fixture.files.writes.open();
    await write;
    expect(await detach).to.equal("done");
    expect(fixture.files.openCount).to.equal(0);
  });

  it("a detach waits for the device's own I/O while others hold the file", async () => {
    await fixture.order("attach", "s1", 1);
    await fixture.order("attach", "s2", 2);
    await fixture.openSession("s1", 1);
    fixture.files.writes.shut();
    const write = fixture.device("s1").write(1, 0, Buffer.alloc(4096, 1), { fua: false });
    await eventually(() => fixture.files.writes.arrivals === 1);
    expect(await fixture.order("detach", "s1", 3)).to.equal("pending");
    fixture.files.writes.open();
    await write;
    expect(await fixture.order("detach", "s1", 3)).to.equal("already");
    expect(fixture.device("s2").attached).to.equal(true);
  });

  it("a missing file fails the attach; the same order succeeds once it exists", async () => {
    renameSync(join(fixture.folder, "a"), join(fixture.folder, "elsewhere"));
    expect(await fixture.order("attach", "a", 1)).to.equal("io_error");
    expect(fixture.device("a").problem?.message).to.match(/there is no such file/);
    expect(await fixture.order("attach", "b", 1)).to.equal("done");
    renameSync(join(fixture.folder, "elsewhere"), join(fixture.folder, "a"));
    expect(await fixture.order("attach", "a", 1)).to.equal("done");
    expect(fixture.device("a").problem?.message).to.equal(undefined);
  });

  it("a file too short for one of its devices fails only that one", async () => {
    makeDeviceFile(fixture.folder, "shared", SIZE - 4096);
    expect(await fixture.order("attach", "s1", 1)).to.equal("done");
    expect(await fixture.order("attach", "s2", 2)).to.equal("io_error");
    expect(fixture.device("s2").problem?.message).to.match(/too short/);
    expect(await fixture.order("detach", "s1", 3)).to.equal("done");
    expect(fixture.files.openCount).to.equal(0);
  });

  it("a file replaced while held fails the device, its sessions and its I/O until the next attach", async () => {
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
    rmSync(join(fixture.folder, "a"));
    writeFileSync(join(fixture.folder, "a"), Buffer.alloc(SIZE));
    expect(await fixture.order("attach", "a", 2)).to.equal("device_changed");
    expect(fixture.files.openCount, "it may be the only way to what was written").to.equal(1);
    await rejection(fixture.device("a").write(1, 0, Buffer.alloc(1), { fua: false }), UnavailableError, "has changed");
    expect(await fixture.openSession("a", 2)).to.equal("device_changed");
    expect(await fixture.openSession("a", 3, ""), "a fence").to.equal("done");
    expect(await fixture.order("detach", "a", 3)).to.equal("done");
    expect(await fixture.order("attach", "a", 4)).to.equal("done");
  });

  const expected = { offsetBytes: 0, sizeBytes: SIZE, blockSizeBytes: 4096, serialNumber: "", fileIdentity: "" };
  for (const [field, value] of Object.entries({
    offsetBytes: 4096,
    sizeBytes: SIZE * 2,
    blockSizeBytes: 512,
    fileIdentity: "another-boot block 8:16:1",
  }))
    it(`a changed ${field} fails the device and its sessions, and closes the file`, async () => {
      await fixture.device("a").file.look();
      const { fileIdentity } = fixture.device("a").reported;
      const known = { ...expected, fileIdentity };
      const other = { ...known, [field]: value };
      expect(await fixture.order("attach", "a", 1, other)).to.equal("device_changed");
      await eventually(() => fixture.files.openCount === 0);
      expect(await fixture.openSession("a", 1)).to.equal("device_changed");
      expect(await fixture.order("attach", "a", 2, known)).to.equal("done");
      expect(await fixture.openSession("a", 1)).to.equal("done");
    });

  it("a file of which the registry knows nothing is not held, because its label was never judged", async () => {
    expect(await fixture.order("attach", "a", 1, { ...expected, sizeBytes: 0 })).to.equal("device_changed");
    await eventually(() => fixture.files.openCount === 0);
    expect(fixture.device("a").problem?.message).to.match(/is not registered yet with what is there/);
    const { fileIdentity } = fixture.device("a").reported;
    expect(await fixture.order("attach", "a", 1, { ...expected, fileIdentity })).to.equal("done");
  });

  it("a changed file that was opened for a held device is closed, and I/O waits", async () => {
    await fixture.order("attach", "a", 1);
    await fixture.openSession("a", 1);
    expect(await fixture.order("attach", "a", 2, { ...expected, offsetBytes: 4096 })).to.equal("device_changed");
    await rejection(fixture.device("a").read(1, 0, 1), UnavailableError, "offset_bytes was 4096, is 0");
  });

  it("a start with the places of two devices swapped opens neither", async () => {
    const half = { ...expected, sizeBytes: SIZE / 2 };
    await fixture.order("attach", "s1", 1, { ...half, offsetBytes: SIZE / 2 });
    await fixture.order("attach", "s2", 2, half);
    await fixture.devices.start({ waitMs: ANSWER_TIMEOUT_MS });
    for (const id of ["s1", "s2"]) expect(fixture.device(id).whyChanged).to.match(/offset_bytes was/);
  });

  it("the start opens all devices but those remembered as detached, and waits up to the timeout", async () => {
    await fixture.order("detach", "b", 1);
    fixture.files.opens.shut();
    const began = performance.now();
    await fixture.devices.start({ waitMs: ANSWER_TIMEOUT_MS });
    expect(performance.now() - began).to.be.lessThan(120_000);
    fixture.files.opens.open();
    await eventually(() => fixture.device("a").attached && fixture.device("s1").attached);
    expect(fixture.device("b").attached).to.equal(false);
    expect(fixture.device("b").sizeBytes, "size of a device that is not opened").to.equal(SIZE);
    expect(fixture.files.openCount).to.equal(2);
  });
});
