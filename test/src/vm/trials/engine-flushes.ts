import { existsSync, realpathSync, rmSync, symlinkSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { DEVICE_BYTES, type DiskClient, DriveErrors, EngineScene, noise } from "@diskmesh/disk-agent/testing";
import { type DeviceId, type DiskId, silentLogger } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { countersAt, Devices, NO_FREEZE, pathOf, SECTOR_BYTES } from "./device-mapper.js";
import { call, makeDrives, unwind } from "./engine-drives.js";

const DISK = "disk-1" as DiskId;
const BLOCK_BYTES = 4_096;
/** Wait in ms of an order for a drive that hangs. */
const PENDING_MS = 1_000;
/** Fails all flushes. */
const FAILING = "/dev/vdb";
const STAMP = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1, deviceGeneration: 0 };

/** Makes a scene whose device a lies on another drive. */
function sceneOn(folder: string, drive: string): EngineScene {
  rmSync(join(folder, "a"));
  symlinkSync(realpathSync(drive), join(folder, "a"));
  return new EngineScene("kernel", { folder });
}

/** Starts a scene, which ends with the test. */
async function start(devices: Devices, scene: EngineScene): Promise<void> {
  devices.later(() => unwind(scene));
  await scene.start();
}

/** Publishes a disk on device a, and writes to it. */
async function write(scene: EngineScene): Promise<DiskClient> {
  const client = await scene.use(await scene.publish(DISK, 1, ["a"]));
  await client.write(0, noise(BLOCK_BYTES));
  return client;
}

/** Orders the session that fences the disk, and returns its outcome within the time. */
async function fence(scene: EngineScene, waitMs: number): Promise<string | undefined> {
  const wish = { number: 2, purpose: "disk" as const, diskId: DISK, holderHostId: "host-1" };
  const run = { deviceId: "a" as DeviceId, offsetBytes: 0, sizeBytes: 0 };
  return (await scene.fixture.sessions.open([run], wish, STAMP, { waitMs }))[0]?.outcome;
}

describe("a flush after a fence of the kernel engine", () => {
  it("succeeds once the drive has flushed what the disk had acknowledged, as has the grant", async () => {
    await using devices = new Devices();
    const { folder, drives } = await makeDrives(devices);
    const sectors = DEVICE_BYTES / SECTOR_BYTES;
    const hung = await devices.create("hung", `0 ${sectors} linear ${drives.a} 0`);
    devices.later(() => call("dmsetup", "resume", hung));
    const scene = sceneOn(folder, pathOf(hung));
    await start(devices, scene);
    const client = await write(scene);
    devices.later(() => client.disconnect());
    const flushes = () => countersAt(basename(drives.a)).flushes;
    const before = flushes();
    await call("dmsetup", "suspend", ...NO_FREEZE, hung);
    const events: string[] = [];
    expect(await fence(scene, PENDING_MS)).to.equal("pending");
    const flushed = client.flush().then(() => events.push("flushed"));
    await sleep(PENDING_MS);
    events.push("answered");
    expect(flushes()).to.equal(before);
    await call("dmsetup", "resume", hung);
    await scene.open(DISK, 2, ["a"]);
    expect(flushes(), "flushes that the drive has had at the grant").to.be.above(before);
    await flushed;
    expect(events).to.deep.equal(["answered", "flushed"]);
    expect((await rejection(client.read(0, BLOCK_BYTES), Error)).message).to.match(/^EIO/);
  });

  it("is preceded by one of the drive at the end of a disk that a next life does not serve", async () => {
    await using devices = new Devices();
    const { folder, drives } = await makeDrives(devices);
    const former = sceneOn(folder, drives.a);
    await former.start();
    const client = await write(former);
    const { memory } = await former.leave();
    const { flushes } = countersAt(basename(drives.a));
    const scene = new EngineScene("kernel", { folder, memory: { ...memory, exports: new Map() } });
    await start(devices, scene);
    // Before the end of the engine, which waits for the disk's last user.
    devices.later(() => client.disconnect());
    const isEnded = async () => (await rejection(client.read(0, BLOCK_BYTES), Error)).message.startsWith("EIO");
    await eventually(isEnded);
    expect(countersAt(basename(drives.a)).flushes).to.be.above(flushes);
    await client.flush();
  });

  it("follows a grant that a drive without a working flush does not hold up, and its devices are ERROR", async function () {
    if (process.pid !== 1) this.skip();
    expect(existsSync(FAILING)).to.equal(true);
    await using devices = new Devices();
    const { folder } = await makeDrives(devices);
    const scene = sceneOn(folder, FAILING);
    await start(devices, scene);
    const errors = await DriveErrors.open(silentLogger);
    devices.later(() => errors.close());
    const client = await write(scene);
    devices.later(() => client.disconnect());
    await scene.open(DISK, 2, ["a"]);
    expect((await rejection(client.read(0, BLOCK_BYTES), Error)).message).to.match(/^EIO/);
    const { devices: table, ledger } = scene.fixture;
    await eventually(async () => {
      await errors.look(table);
      const noted = [...table.hardwareErrors.unreported(ledger.memory)].map(([id, { message }]) => [id, message]);
      expect(noted).to.deep.equal([["a", `the kernel has logged: I/O error of drive ${basename(FAILING)} (WRITE)`]]);
    });
  });
});
