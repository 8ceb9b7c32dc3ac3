import { constants, statfsSync, writeFileSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { alignedBlocks, BLOCK_BYTES, CheckedWriter } from "./checked-writer.js";
import {
  command,
  countersAt,
  countersOf,
  Devices,
  dmsetup,
  info,
  mountNew,
  NO_FREEZE,
  pathOf,
  SECTOR_BYTES,
} from "./device-mapper.js";

const SECTORS = 65_536;
const HALF = SECTORS / 2;
const DEPTH = 16;
const SWAPS = 4;
const WRITES = 200;
/** A UUID of device-mapper has 128 characters at most. */
const UUID_LENGTH = 128;

const linear = (path: string, sectors = SECTORS): string => `0 ${sectors} linear ${path} 0`;

describe("a change of a table", () => {
  it("by one resume fails and loses no write", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const other = await devices.drive(SECTORS);
    const disk = await devices.create("disk", linear(drive));
    const writer = await CheckedWriter.start(pathOf(disk), DEPTH);
    const change = async (table: string) => {
      await dmsetup("load", disk, "--table", table);
      await dmsetup("resume", ...NO_FREEZE, disk);
      await writer.progress();
    };
    for (let swap = 0; swap < SWAPS; swap++) {
      const isOdd = swap % 2 === 1;
      await change(isOdd ? linear(drive) : `0 ${HALF} linear ${drive} 0\n${HALF} ${HALF} linear ${drive} ${HALF}`);
      expect((await dmsetup("table", disk)).split("\n")).to.have.length(isOdd ? 1 : 2);
    }
    expect(await writer.faults(other), "faults of a drive that has no write").to.have.length(DEPTH);
    await change(linear(other));
    await writer.stop();
    expect(writer.errors).to.deep.equal([]);
    expect(await writer.faults(other)).to.deep.equal([]);
    expect(await writer.faults(drive), "faults of a drive that lacks the last writes").to.have.length(DEPTH);
  });

  it("is not there before resume", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const disk = await devices.create("disk", linear(drive, HALF));
    const size = () => command("blockdev", "--getsz", pathOf(disk));
    await dmsetup("load", disk, "--table", linear(drive));
    expect([await size(), await info(disk, "tables_loaded")]).to.deep.equal([`${HALF}`, "Both"]);
    await dmsetup("resume", ...NO_FREEZE, disk);
    expect([await size(), await info(disk, "tables_loaded")]).to.deep.equal([`${SECTORS}`, "Live"]);
  });
});

for (const type of ["ext4", "xfs"] as const)
  describe(`a mounted ${type}`, () => {
    it("grows by a longer table while it is written to", async () => {
      await using devices = new Devices();
      const sectors = (320 * MIB_BYTES) / SECTOR_BYTES;
      const drive = await devices.drive(2 * sectors);
      const disk = await devices.create("disk", linear(drive, sectors));
      const folder = await mountNew(devices, type, pathOf(disk));
      const content = Buffer.alloc(MIB_BYTES, "kept");
      writeFileSync(join(folder, "kept"), content);
      const grow = () => (type === "ext4" ? command("resize2fs", pathOf(disk)) : command("xfs_growfs", folder));
      const before = statfsSync(folder).blocks;
      let isDone = false;
      const synced = (async () => {
        await using file = await open(join(folder, "written"), "w");
        let count = 0;
        for (; !isDone; count++) {
          await file.write(Buffer.alloc(BLOCK_BYTES, count % 256), 0, BLOCK_BYTES, count * BLOCK_BYTES);
          await file.sync();
        }
        return count;
      })();
      await grow();
      expect(statfsSync(folder).blocks).to.equal(before);
      await dmsetup("load", disk, "--table", linear(drive, 2 * sectors));
      await dmsetup("resume", ...NO_FREEZE, disk);
      await grow();
      expect(statfsSync(folder).blocks).to.be.above(1.8 * before);
      isDone = true;
      const count = await synced;
      await command("umount", folder);
      await command("mount", "-t", type, pathOf(disk), folder);
      expect(await readFile(join(folder, "kept"))).to.deep.equal(content);
      const written = await readFile(join(folder, "written"));
      expect(written.length).to.equal(count * BLOCK_BYTES);
      for (let index = 0; index < count; index++) expect(written[index * BLOCK_BYTES]).to.equal(index % 256);
    });
  });

describe("a UUID", () => {
  it("is refused for a second device, and found whole up to its length; a longer one is refused", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    const longest = `DISKMESH-${process.pid}-`.padEnd(UUID_LENGTH, "x");
    const disk = await devices.create("disk", linear(drive), "--uuid", longest);
    expect(await info(disk, "uuid")).to.equal(longest);
    const second = devices.create("disk", linear(drive), "--uuid", longest);
    expect((await rejection(second, Error)).message).to.match(/exists|busy/i);
    const longer = devices.create("disk", linear(drive), "--uuid", `${longest}y`);
    expect((await rejection(longer, Error)).message).to.match(/too long/);
    await devices.create("disk", linear(drive), "--uuid", `${longest.slice(0, -1)}y`);
  });
});

describe("the counters of a disk on legs on a guard", () => {
  it("show one request on the drive for each write; one that crosses legs counts twice, also on the disk", async () => {
    await using devices = new Devices();
    const drive = await devices.drive(SECTORS);
    // A loop device keeps its counters from one file to the next.
    const before = countersAt(basename(drive)).writes;
    const guard = await devices.create("guard", linear(drive));
    const legs = [
      await devices.create("leg", `0 ${HALF} linear ${pathOf(guard)} ${HALF}`),
      await devices.create("leg", `0 ${HALF} linear ${pathOf(guard)} 0`),
    ] as const;
    const disk = await devices.create(
      "disk",
      `0 ${HALF} linear ${pathOf(legs[0])} 0\n${HALF} ${HALF} linear ${pathOf(legs[1])} 0`,
    );
    const writer = await CheckedWriter.start(pathOf(disk), DEPTH);
    await eventually(() => writer.writes > WRITES);
    await writer.stop();
    const ofDisk = (await countersOf(disk)).writes;
    expect(ofDisk).to.equal(writer.writes);
    expect((await countersOf(guard)).writes).to.equal(ofDisk);
    expect(countersAt(basename(drive)).writes).to.equal(before + ofDisk);
    await using file = await open(pathOf(disk), constants.O_WRONLY | constants.O_DIRECT);
    const [block = Buffer.alloc(0)] = alignedBlocks(2);
    const twoBlocks = Buffer.from(block.buffer, 0, 2 * BLOCK_BYTES);
    await file.write(twoBlocks, 0, twoBlocks.length, HALF * SECTOR_BYTES - BLOCK_BYTES);
    expect((await countersOf(disk)).writes).to.equal(ofDisk + 2);
    expect((await countersOf(guard)).writes).to.equal(ofDisk + 2);
  });
});
