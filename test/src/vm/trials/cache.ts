import { constants, readFileSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { basename, join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { alignedBlocks, BLOCK_BYTES, CheckedWriter } from "./checked-writer.js";
import { command, countersOf, Devices, dmsetup, mountNew, pathOf, SECTOR_BYTES, wipe } from "./device-mapper.js";

const SECTORS = 65_536;
const DEPTH = 8;
const WRITES = 100;
const FILE_BYTES = 16 * MIB_BYTES;

const linear = (path: string, sectors = SECTORS): string => `0 ${sectors} linear ${path} 0`;

/** Writes the first block. */
async function write(file: FileHandle, byte: number): Promise<void> {
  const [block = Buffer.alloc(0)] = alignedBlocks(1);
  await file.write(block.fill(byte), 0, BLOCK_BYTES, 0);
}

/** Writes the first block of a device without the page cache. */
async function writeDirect(path: string, byte: number): Promise<void> {
  await using file = await open(path, constants.O_WRONLY | constants.O_DIRECT);
  await write(file, byte);
}

/** Returns the first byte of a block. */
async function read(file: FileHandle, block = 0): Promise<number> {
  const [buffer = Buffer.alloc(0)] = alignedBlocks(1);
  await file.read(buffer, 0, BLOCK_BYTES, block * BLOCK_BYTES);
  return buffer[0] ?? Number.NaN;
}

async function readFirst(path: string, flags = 0): Promise<number> {
  await using file = await open(path, constants.O_RDONLY | flags);
  return read(file);
}

describe("the page cache", () => {
  it("of a drive is stale below a leg until BLKFLSBUF; O_DIRECT and a new leg read what there is", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    await using held = await open(drive, constants.O_RDWR);
    await read(held);
    const leg = await devices.create("leg", linear(drive));
    await writeDirect(pathOf(leg), 7);
    expect(await readFirst(drive)).to.equal(0);
    expect(await readFirst(drive, constants.O_DIRECT)).to.equal(7);
    const later = await devices.create("leg", linear(drive));
    expect(await readFirst(pathOf(later))).to.equal(7);
    await command("blockdev", "--flushbufs", drive);
    expect(await readFirst(drive)).to.equal(7);
  });

  it("of a drive is written over newer bytes of a leg; that of a wiped leg is not", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    devices.keepDirtyPages();
    const former = await devices.create("leg", linear(drive));
    await using ofDrive = await open(drive, constants.O_RDWR);
    await using ofFormer = await open(pathOf(former), constants.O_RDWR);
    await write(ofFormer, 1);
    await wipe(former);
    const leg = await devices.create("leg", linear(drive));
    await writeDirect(pathOf(leg), 7);
    expect((await rejection(ofFormer.sync(), Error)).message).to.match(/^EIO/);
    expect(await readFirst(pathOf(leg), constants.O_DIRECT)).to.equal(7);
    await write(ofDrive, 2);
    await writeDirect(pathOf(leg), 8);
    await ofDrive.sync();
    expect(await readFirst(pathOf(leg), constants.O_DIRECT)).to.equal(2);
  });

  it("of a wiped leg answers buffered reads of what it has, and EIO else", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const leg = await devices.create("leg", linear(drive));
    await writeDirect(drive, 7);
    await using file = await open(pathOf(leg), constants.O_RDONLY);
    expect(await read(file)).to.equal(7);
    await wipe(leg);
    expect(await read(file)).to.equal(7);
    // Far from what is read ahead.
    const last = (SECTORS * SECTOR_BYTES) / BLOCK_BYTES - 1;
    expect((await rejection(read(file, last), Error)).message).to.match(/^EIO/);
  });
});

describe("a loop device below a guard", () => {
  /** Makes a file on an ext4 whose drive's counters show what reaches it. */
  const makeFile = async (devices: Devices) => {
    const drive = await devices.drive(2 * SECTORS);
    const below = await devices.create("below", linear(drive, 2 * SECTORS));
    const file = join(await mountNew(devices, "ext4", pathOf(below)), "drive");
    writeFileSync(file, Buffer.alloc(FILE_BYTES));
    await command("sync", file);
    return { below, file };
  };

  for (const { mode, isWritten } of [
    { mode: "on", isWritten: true },
    { mode: "off", isWritten: false },
  ])
    it(`with direct I/O ${mode} has ${isWritten ? "written" : "not written"} what it acknowledged`, async () => {
      await using devices = new Devices();
      const { below, file } = await makeFile(devices);
      devices.keepDirtyPages();
      const loop = await devices.loop(file, `--direct-io=${mode}`);
      expect(readFileSync(`/sys/block/${basename(loop)}/loop/dio`, "utf8").trim()).to.equal(isWritten ? "1" : "0");
      const guard = await devices.create("guard", linear(loop, FILE_BYTES / SECTOR_BYTES));
      const before = (await countersOf(below)).sectorsWritten;
      const writer = await CheckedWriter.start(pathOf(guard), DEPTH);
      await eventually(() => writer.writes > WRITES);
      await writer.stop();
      expect(writer.errors).to.deep.equal([]);
      const sectors = (await countersOf(below)).sectorsWritten - before;
      if (isWritten) expect(sectors).to.be.at.least(writer.writes * (BLOCK_BYTES / SECTOR_BYTES));
      else expect(sectors).to.be.below(writer.writes);
    });

  it("outlives its detach, is found by its file, and ends with the guard", async () => {
    await using devices = new Devices();
    const { file } = await makeFile(devices);
    const found = () => command("losetup", "--noheadings", "--output", "name", "--associated", file);
    const loop = await command("losetup", "--find", "--show", "--direct-io=on", file);
    expect(await found()).to.equal(loop);
    const guard = `dm-trial-${process.pid}-guard-of-loop`;
    await dmsetup("create", guard, "--table", linear(loop, FILE_BYTES / SECTOR_BYTES));
    await command("losetup", "--detach", loop);
    expect(await found()).to.equal(loop);
    await writeDirect(pathOf(guard), 7);
    expect(readFileSync(file)[0]).to.equal(7);
    await dmsetup("remove", "--retry", guard);
    await eventually(async () => expect(await found()).to.equal(""));
  });
});
