import { lstatSync, mkdirSync, readFileSync, realpathSync, truncateSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import {
  beginBlockFlood,
  DEVICE_BYTES,
  EngineScene,
  engineContract,
  noise,
  specOf,
} from "@diskmesh/disk-agent/testing";
import type { DiskId } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { Devices, mountNew, SECTOR_BYTES } from "./device-mapper.js";
import { call, unwind } from "./engine-drives.js";

const BLOCK_BYTES = 4096;
const DISK = "disk-1" as DiskId;
const DEPTH = 16;
const SLICE_BYTES = DEVICE_BYTES / 4;
const RECORD_BYTES = 64 * 1024;

describe("the kernel engine", () => {
  let scene: EngineScene;

  beforeEach(async () => {
    scene = new EngineScene("kernel", undefined, { lastEngine: "node", whyNoBlockDevices: "the test uses sockets" });
    await scene.start();
  });

  afterEach(async () => {
    await scene?.stop();
  });

  engineContract(() => scene);

  it("fails no I/O when the agent ends, and its next life finds the disk in the kernel's tables", async () => {
    const path = await scene.publish(DISK, 1, ["a", "d"]);
    const flood = await beginBlockFlood(path, DEPTH);
    scene = new EngineScene("kernel", await scene.leave());
    const before = flood.writes();
    await eventually(() => flood.writes() > before + DEPTH);
    const { ino } = lstatSync(path);
    await scene.start();
    expect(scene.exports.list()).to.deep.equal([{ diskId: DISK, sessionNumber: 1, wentOn: true }]);
    expect(lstatSync(path).ino, "the link of the disk's path").to.equal(ino);
    const after = flood.writes();
    await eventually(() => flood.writes() > after + DEPTH);
    await scene.open(DISK, 2, ["a", "d"]);
    const granted = ["a", "shared"].map((name) => scene.bytesOf(name));
    await flood.ended;
    expect([...flood.errors]).to.deep.equal(["EIO"]);
    expect(["a", "shared"].map((name) => scene.bytesOf(name))).to.deep.equal(granted);
  });

  it("ends what a former life left whose cache was lost", async () => {
    const flood = await beginBlockFlood(await scene.publish(DISK, 1, ["a"]), DEPTH);
    const { folder } = await scene.leave();
    scene = new EngineScene("kernel", { folder });
    await scene.start();
    await flood.ended;
    await eventually(async () => {
      const kinds = (await scene.mapper?.list())?.map(({ role }) => role.kind);
      expect(new Set(kinds)).to.deep.equal(new Set(["guard"]));
    });
  });

  for (const calls of [["load"], ["load", "suspend"], ["suspend"]])
    it(`goes on after a life that ended between ${calls.join(", ")} and resume`, async () => {
      const flood = await beginBlockFlood(await scene.publish(DISK, 1, ["a"]), DEPTH);
      const former = await scene.leave();
      const names = (await call("dmsetup", "info", "--columns", "--noheadings", "--options", "name")).split("\n");
      for (const name of names.filter((each) => each.startsWith("diskmesh-"))) {
        if (calls.includes("load")) await call("dmsetup", "load", name, "--table", "0 2048 error");
        if (calls.includes("suspend") && name.includes("-disk-"))
          await call("dmsetup", "suspend", "--noflush", "--nolockfs", name);
      }
      scene = new EngineScene("kernel", former);
      await scene.start();
      const before = flood.writes();
      await eventually(() => flood.writes() > before + DEPTH);
      expect(flood.errors.size).to.equal(0);
      await scene.open(DISK, 2, ["a"]);
      await flood.ended;
    });

  it("makes a disk longer under a writer", async () => {
    const spec = specOf(DISK, 1, ["a", "b"]);
    const short = spec.extents.map((extent) => ({ ...extent, sizeBytes: DEVICE_BYTES / 2 })).slice(0, 1);
    await scene.open(DISK, 1, ["a", "b"]);
    const path = await scene.exports.serve({ ...spec, extents: short });
    const flood = await beginBlockFlood(path, 2);
    await scene.exports.serve({ ...spec, revision: 1 });
    expect((await scene.use(path)).sizeBytes).to.equal(2 * DEVICE_BYTES);
    const before = flood.writes();
    await eventually(() => flood.writes() > before + DEPTH);
    expect(flood.errors.size).to.equal(0);
    const former = await scene.leave();
    scene = new EngineScene("kernel", former);
    await scene.start();
    expect((await scene.use(path)).sizeBytes).to.equal(2 * DEVICE_BYTES);
    await scene.open(DISK, 2, ["a", "b"]);
    await flood.ended;
  });

  it("makes the guard of a drive longer that has grown", async () => {
    const { folder } = scene.fixture;
    const sizes = async () =>
      (await scene.mapper?.list())
        ?.map(({ table }) => SECTOR_BYTES * Number(table.split(" ")[1]))
        .sort((a, b) => a - b);
    expect(await sizes()).to.deep.equal([DEVICE_BYTES, DEVICE_BYTES, 2 * DEVICE_BYTES]);
    truncateSync(join(folder, "a.img"), 4 * DEVICE_BYTES);
    await call("losetup", "--set-capacity", realpathSync(join(folder, "a")));
    await scene.fixture.device("a").file.look();
    expect(await sizes()).to.deep.equal([DEVICE_BYTES, 2 * DEVICE_BYTES, 4 * DEVICE_BYTES]);
  });

  it("detaches a disk only once nobody uses its device", async () => {
    const path = await scene.publish(DISK, 1, ["a"]);
    const client = await scene.use(path);
    const refused = await rejection(scene.exports.drain(DISK, 1, () => {}));
    expect(refused.message).to.match(/still in use: its block device \/dev\/dm-\d+ is open in process/);
    await client.write(0, noise(BLOCK_BYTES));
    await client.disconnect();
    await scene.exports.drain(DISK, 1, () => {});
    await scene.exports.end(DISK, 1);
    await eventually(async () => {
      const kinds = (await scene.mapper?.list())?.map(({ role }) => role.kind);
      expect(new Set(kinds)).to.deep.equal(new Set(["guard"]));
    });
  });

  it("serves bytes behind the record of a run, and leaves the record and the next run alone, also in its next life", async () => {
    const inner = (sessionNumber: number, startBytes: number, sizeBytes: number) => {
      const [extent] = specOf(DISK, sessionNumber, ["a"], sizeBytes).extents;
      return extent === undefined ? [] : [{ ...extent, sessionNumber, offsetBytes: startBytes + RECORD_BYTES }];
    };
    const grant = async (number: number, run: { offsetBytes: number; sizeBytes: number }) =>
      expect(await scene.fixture.openSession("a", number, "host-1", undefined, run)).to.equal("done");
    const spec = specOf(DISK, 1, ["a"]);
    await grant(1, { offsetBytes: SLICE_BYTES, sizeBytes: SLICE_BYTES });
    await grant(2, { offsetBytes: 3 * SLICE_BYTES, sizeBytes: SLICE_BYTES });
    const path = await scene.exports.serve({ ...spec, extents: inner(1, SLICE_BYTES, SLICE_BYTES - RECORD_BYTES) });
    const next = { ...specOf("disk-2", 2, ["a"]), extents: inner(2, 3 * SLICE_BYTES, BLOCK_BYTES) };
    const flood = await beginBlockFlood(await scene.exports.serve(next), DEPTH);
    const fill = async (byte: number) => {
      const client = await scene.use(path);
      await client.write(0, Buffer.alloc(client.sizeBytes, byte), { fua: true });
      const expected = Buffer.alloc(3 * SLICE_BYTES);
      expected.fill(byte, SLICE_BYTES + RECORD_BYTES, SLICE_BYTES + RECORD_BYTES + client.sizeBytes);
      expect(
        scene
          .bytesOf("a")
          .subarray(0, 3 * SLICE_BYTES)
          .equals(expected),
      ).to.equal(true);
      await client.disconnect();
      return client.sizeBytes;
    };
    expect(await fill(1)).to.equal(SLICE_BYTES - RECORD_BYTES);
    const run = { offsetBytes: SLICE_BYTES, sizeBytes: 2 * SLICE_BYTES };
    await grant(1, run);
    const longer = { ...spec, revision: 1, extents: inner(1, SLICE_BYTES, 2 * SLICE_BYTES - RECORD_BYTES) };
    await scene.exports.serve(longer);
    expect(await fill(2)).to.equal(2 * SLICE_BYTES - RECORD_BYTES);
    scene = new EngineScene("kernel", await scene.leave());
    await scene.start();
    expect(scene.exports.list().map(({ wentOn }) => wentOn)).to.deep.equal([true, true]);
    expect(await fill(3)).to.equal(2 * SLICE_BYTES - RECORD_BYTES);
    const before = flood.writes();
    await grant(3, run);
    await rejection(scene.use(path), Error);
    await eventually(() => flood.writes() > before + DEPTH);
    expect(flood.errors.size).to.equal(0);
    await grant(4, { offsetBytes: 3 * SLICE_BYTES, sizeBytes: SLICE_BYTES });
    await flood.ended;
  });

  it("lets nobody write to a read-only disk, in no life", async () => {
    const writer = await scene.use(await scene.publish(DISK, 1, ["a"]));
    const data = noise(BLOCK_BYTES);
    await writer.write(0, data, { fua: true });
    await writer.disconnect();
    await scene.open(DISK, 2, ["a"]);
    const path = await scene.exports.serve({ ...specOf(DISK, 2, ["a"]), readOnly: true });
    const isRefused = async () => {
      const reader = await scene.use(path);
      expect((await rejection(reader.write(0, noise(BLOCK_BYTES)), Error)).message).to.match(/^EPERM/);
      expect((await reader.read(0, BLOCK_BYTES)).equals(data)).to.equal(true);
      await reader.disconnect();
    };
    await isRefused();
    scene = new EngineScene("kernel", await scene.leave());
    await scene.start();
    await isRefused();
  });

  it("refuses limits of a disk that it serves, and goes on with it in its next life", async () => {
    const path = await scene.publish(DISK, 1, ["a"]);
    const spec = { ...specOf(DISK, 1, ["a"]), revision: 1 };
    const limits = { readIops: 100, writeIops: 100, readBytesPerSecond: 0, writeBytesPerSecond: 0, burstSeconds: 0 };
    const limited = await rejection(scene.exports.serve({ ...spec, limits }));
    expect(limited.message).to.match(/^engine kernel cannot limit the I\/O of disk disk-1 while it serves the disk/);
    const client = await scene.use(path);
    scene = new EngineScene("kernel", await scene.leave());
    await scene.start();
    expect(scene.exports.list()).to.deep.equal([{ diskId: DISK, sessionNumber: 1, wentOn: true }]);
    await client.write(0, noise(BLOCK_BYTES), { fua: true });
    await client.disconnect();
  });
});

describe("the kernel engine on regular files", () => {
  const options = { whyNoBlockDevices: "the test uses sockets", hasRegularFiles: true };

  /** Makes files on a file system with direct I/O, which tmpfs has not on every kernel. */
  const makeFiles = async (devices: Devices): Promise<string> => {
    const folder = await mountNew(devices, "ext4", await devices.drive((64 * DEVICE_BYTES) / SECTOR_BYTES));
    mkdirSync(join(folder, "exports"));
    for (const [name, count] of Object.entries({ a: 1, b: 1, shared: 2 }))
      writeFileSync(join(folder, name), Buffer.alloc(count * DEVICE_BYTES));
    return folder;
  };

  it("makes loop devices, finds them in its next life, and leaves none", async () => {
    await using devices = new Devices();
    const folder = await makeFiles(devices);
    let scene = new EngineScene("kernel", { folder }, options);
    devices.later(() => unwind(scene));
    const found = (name: string) =>
      call("losetup", "--noheadings", "--output", "name", "--associated", join(folder, name));
    const allFound = async () => [await found("a"), await found("b"), await found("shared")];
    await scene.start();
    const path = await scene.publish(DISK, 1, ["a", "d"]);
    const loops = await allFound();
    for (const loop of loops)
      expect(readFileSync(`/sys/block/${basename(loop)}/loop/dio`, "utf8").trim(), `direct I/O of ${loop}`).to.equal(
        "1",
      );
    const flood = await beginBlockFlood(path, DEPTH);
    scene = new EngineScene("kernel", await scene.leave(), options);
    await scene.start();
    expect(await allFound()).to.deep.equal(loops);
    const before = flood.writes();
    await eventually(() => flood.writes() > before + DEPTH);
    expect(flood.errors.size).to.equal(0);
    await scene.open(DISK, 2, ["a", "d"]);
    const granted = ["a", "shared"].map((name) => scene.bytesOf(name));
    await flood.ended;
    expect(["a", "shared"].map((name) => scene.bytesOf(name))).to.deep.equal(granted);
    expect(await scene.detach("a", 1)).to.equal("done");
    await eventually(async () => expect(await allFound()).to.deep.equal(["", ...loops.slice(1)]));
    await unwind(scene);
    await eventually(async () => expect(await allFound()).to.deep.equal(["", "", ""]));
  });

  it("refuses a file whose loop device somebody else has", async () => {
    await using devices = new Devices();
    const folder = await makeFiles(devices);
    const other = await devices.loop(join(folder, "a"));
    await devices.create("other", `0 ${DEVICE_BYTES / SECTOR_BYTES} linear ${other} 0`);
    const scene = new EngineScene("kernel", { folder }, options);
    devices.later(() => unwind(scene));
    expect((await rejection(scene.start(), Error)).message).to.match(/cannot be used: it is mounted, or held by/);
  });
});
