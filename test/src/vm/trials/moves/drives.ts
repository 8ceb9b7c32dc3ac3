import { realpathSync, rmSync, symlinkSync } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { DEVICE_BYTES, EngineScene, noise } from "@diskmesh/disk-agent/testing";
import { UnavailableError } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, CheckedWriter } from "../checked-writer.js";
import { Devices, dmsetup, NO_FREEZE, pathOf, SECTOR_BYTES } from "../device-mapper.js";
import { makeDrives, unwind } from "../engine-drives.js";
import { count, noteLongest } from "../tally.js";
import { DISK, MoveOrders, SESSION } from "./orders.js";

/** Blocks that are written at a time, from the first one on. */
const BLOCKS = 32;
const REST_MS = 20;
const SECTORS = DEVICE_BYTES / SECTOR_BYTES;
const ROUNDS = 4;
/** Drive of the virtual machine that fails all flushes. */
const FAILS_FLUSHES = "/dev/vdb";
/** Rate at which a move lasts for long. */
const SLOW = 1024;
const OPTIONS = { whyNoBlockDevices: "the test uses sockets" };

/** Starts an agent on new drives. */
async function startScene(
  devices: Devices,
  former?: { readonly folder: string },
  options: { readonly whyNoMirror?: string } = {},
): Promise<EngineScene> {
  const folder = former?.folder ?? (await makeDrives(devices)).folder;
  const scene = new EngineScene("kernel", { folder }, { ...OPTIONS, ...options });
  devices.later(async () => {
    for (const { diskId, sessionNumber } of scene.exports.list()) await scene.exports.end(diskId, sessionNumber);
    await unwind(scene);
  });
  await scene.start();
  return scene;
}

/** Overwrites a device, as the registry does with one that is released. */
async function overwrite(scene: EngineScene, id: string, session: number): Promise<void> {
  await scene.open("disk-2", session, [id]);
  const device = scene.fixture.device(id);
  await device.write(session, 0, Buffer.alloc(DEVICE_BYTES, 0xee), { fua: false });
  await device.flush(session, 0);
}

const kindsOf = async (scene: EngineScene) => (await scene.mapper?.list())?.map(({ role }) => role.kind) ?? [];

describe("a disk of the kernel engine that moves while it is in use", () => {
  it("has every acknowledged write on its new drive, and none of the former one's bytes", async () => {
    await using devices = new Devices();
    const scene = await startScene(devices);
    const path = await scene.publish(DISK, SESSION, ["a"]);
    const writer = await CheckedWriter.start(path, BLOCKS, REST_MS);
    const orders = new MoveOrders(scene);
    await writer.progress();
    for (let round = 1; round <= ROUNDS; round++) {
      const { id } = orders.now;
      const to = { id: id === "a" ? "b" : "a", sessionNumber: 10 * round };
      await orders.begin(to);
      await writer.progress();
      await orders.until(to, "equal");
      expect(orders.ask(to).copiedBytes).to.equal(DEVICE_BYTES);
      await writer.progress();
      await orders.count(to);
      await overwrite(scene, id, 10 * round + 1);
      await writer.progress();
      expect(writer.errors).to.deep.equal([]);
      expect(await kindsOf(scene)).to.not.include("part");
      count("live moves between drives");
    }
    await writer.stop();
    expect(await writer.faults(join(scene.fixture.folder, orders.now.id))).to.deep.equal([]);
  });

  it("moves all bytes, also those that nobody writes, and refuses discards meanwhile", async () => {
    await using devices = new Devices();
    const scene = await startScene(devices);
    const client = await scene.use(await scene.publish(DISK, SESSION, ["a"]));
    const data = noise(DEVICE_BYTES);
    await client.write(0, data, { fua: true });
    await client.trim(0, BLOCK_BYTES);
    data.fill(0, 0, BLOCK_BYTES);
    await client.write(0, data.subarray(0, BLOCK_BYTES));
    const orders = new MoveOrders(scene);
    const to = { id: "b", sessionNumber: 2 };
    await orders.begin(to, SLOW);
    expect((await rejection(client.trim(0, BLOCK_BYTES), Error)).message).to.match(/not supported/);
    await client.writeZeroes(BLOCK_BYTES, BLOCK_BYTES);
    data.fill(0, BLOCK_BYTES, 2 * BLOCK_BYTES);
    await orders.until(to, "equal");
    expect((await rejection(client.trim(0, BLOCK_BYTES), Error)).message).to.match(/not supported/);
    await orders.count(to);
    await overwrite(scene, "a", 3);
    expect((await client.read(0, DEVICE_BYTES)).equals(data)).to.equal(true);
    await client.trim(0, BLOCK_BYTES);
    await client.disconnect();
  });

  for (const isBound of [false, true])
    it(`loses no write when its target fails ${isBound ? "after" : "before"} EQUAL`, async () => {
      await using devices = new Devices();
      const { folder } = await makeDrives(devices);
      const drive = await devices.drive(SECTORS);
      const table = (kind: string) => `0 ${SECTORS} ${kind}`;
      const failing = await devices.create("drive", table(`linear ${drive} 0`));
      rmSync(join(folder, "b"));
      symlinkSync(pathOf(failing), join(folder, "b"));
      const scene = await startScene(devices, { folder });
      // Writes that are held keep threads of this process, of which the agent needs some, too.
      const blocks = isBound ? 2 : BLOCKS;
      const writer = await CheckedWriter.start(await scene.publish(DISK, SESSION, ["a"]), blocks, REST_MS);
      const orders = new MoveOrders(scene);
      const to = { id: "b", sessionNumber: 2 };
      await orders.begin(to, isBound ? 0 : SLOW);
      if (isBound) await orders.until(to, "equal");
      else await eventually(() => expect(orders.ask(to, SLOW).copiedBytes).to.be.above(0));
      await writer.progress();
      writer.longestMs = 0;
      await dmsetup("load", failing, "--table", table("error"));
      await dmsetup("resume", ...NO_FREEZE, failing);
      const { answer } = await orders.until(to, "failed");
      expect(answer).to.have.property("at", "target");
      if (isBound) {
        expect(scene.exports.problems()[0]?.message).to.match(/its writes wait until the registry says/);
        await eventually(async () => {
          const { writes } = writer;
          await new Promise((resolve) => setTimeout(resolve, 500));
          expect(writer.writes).to.equal(writes);
        });
      } else {
        await writer.progress();
        noteLongest("longest write in ms while a target failed", writer.longestMs);
      }
      await orders.count(orders.now);
      await writer.progress();
      expect(writer.errors).to.deep.equal([]);
      expect(await kindsOf(scene)).to.not.include("part");
      await writer.stop();
      expect(await writer.faults(join(folder, "a"))).to.deep.equal([]);
      count(`failing targets ${isBound ? "after" : "before"} EQUAL`);
    });

  it("gives up a target that does not flush, and fails no flush", async function () {
    if (process.pid !== 1) this.skip();
    await using devices = new Devices();
    const { folder } = await makeDrives(devices);
    rmSync(join(folder, "b"));
    symlinkSync(realpathSync(FAILS_FLUSHES), join(folder, "b"));
    const scene = await startScene(devices, { folder });
    const client = await scene.use(await scene.publish(DISK, SESSION, ["a"]));
    devices.later(() => client.disconnect());
    const orders = new MoveOrders(scene);
    for (const [session, rate] of [
      [2, SLOW],
      [3, 0],
    ] as const) {
      const to = { id: "b", sessionNumber: session };
      await orders.begin(to, rate);
      if (rate === SLOW) await eventually(() => expect(orders.ask(to, SLOW).copiedBytes).to.be.above(0));
      await client.write(0, noise(BLOCK_BYTES), { fua: true });
      const { answer } = await orders.until(to, "failed");
      expect(answer).to.have.property("at", "target");
      await orders.count(orders.now);
      await client.flush();
      count("targets that do not flush");
    }
  });

  it("ends with EIO at a fence while the kernel holds writes", async () => {
    await using devices = new Devices();
    const scene = await startScene(devices);
    const writer = await CheckedWriter.start(await scene.publish(DISK, SESSION, ["a"]), 2, REST_MS);
    const orders = new MoveOrders(scene);
    const to = { id: "b", sessionNumber: 2 };
    await orders.begin(to);
    await orders.until(to, "equal");
    await scene.open("disk-2", 3, ["b"]);
    await orders.until(to, "failed");
    await scene.open("disk-3", 4, ["a"]);
    await writer.ended();
    expect(new Set(writer.errors)).to.deep.equal(new Set(["EIO"]));
    expect(await writer.faults(join(scene.fixture.folder, "a"))).to.deep.equal([]);
    await writer.stop();
    await eventually(async () => expect(new Set(await kindsOf(scene))).to.deep.equal(new Set(["guard"])));
  });

  it("fails its move when the target's session is refused, and goes on", async () => {
    await using devices = new Devices();
    const scene = await startScene(devices);
    const path = await scene.publish(DISK, SESSION, ["a"]);
    const orders = new MoveOrders(scene);
    const to = { id: "b", sessionNumber: 2 };
    await orders.begin(to, SLOW);
    await scene.open("disk-2", 3, ["b"]);
    const { answer } = await orders.until(to, "failed");
    expect(answer).to.have.property("at", "target");
    await orders.count(orders.now);
    await using file = await open(path, "r+");
    await file.write(Buffer.alloc(BLOCK_BYTES, 1));
    await file.datasync();
  });

  it("stays where the kernel has no mirrors, and says so", async () => {
    await using devices = new Devices();
    const scene = await startScene(devices, undefined, { whyNoMirror: "the test has no dm-mirror" });
    const writer = await CheckedWriter.start(await scene.publish(DISK, SESSION, ["a"]), BLOCKS, REST_MS);
    const orders = new MoveOrders(scene);
    const { message } = await rejection(orders.begin({ id: "b", sessionNumber: 2 }), UnavailableError);
    expect(message).to.match(/cannot move disk disk-1 while it serves the disk: the test has no dm-mirror: unpublish/);
    await writer.progress();
    expect(writer.errors).to.deep.equal([]);
    await writer.stop();
  });
});
