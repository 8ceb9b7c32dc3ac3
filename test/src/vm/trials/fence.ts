import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { open } from "node:fs/promises";
import { release } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { MIB_BYTES } from "@diskmesh/domain";
import { rejection } from "@diskmesh/domain/testing";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { BLOCK_BYTES, CheckedWriter, readDirect } from "./checked-writer.js";
import {
  command,
  countersOf,
  Devices,
  dmsetup,
  info,
  mountNew,
  NO_FREEZE,
  pathOf,
  SECTOR_BYTES,
  wipe,
} from "./device-mapper.js";
import { expectSyncToFail, writeUntilFailure } from "./failing-files.js";

/** The smallest xfs has 300 MiB. */
const LEG_SECTORS = (320 * MIB_BYTES) / SECTOR_BYTES;
const DRIVE_SECTORS = 2 * LEG_SECTORS;
const DIRTY_BYTES = 8 * MIB_BYTES;
const DIRTY_SECTORS = DIRTY_BYTES / SECTOR_BYTES;
const DEPTH = 16;
/** Time in which a wipe that does not wait ends. */
const WIPE_MS = 2_000;
const SLOW_MS = 200;

interface Legs {
  readonly drive: string;
  /** Between drive and leg: its counters show what the leg lets through. */
  readonly below: string;
  readonly leg: string;
  readonly neighbour: string;
}

/** Makes a drive that can be suspended, and two legs that share it. */
async function makeLegs(devices: Devices): Promise<Legs> {
  const file = await devices.drive(DRIVE_SECTORS);
  const drive = await devices.create("drive", `0 ${DRIVE_SECTORS} linear ${file} 0`);
  const below = await devices.create("below", `0 ${LEG_SECTORS} linear ${pathOf(drive)} 0`);
  const leg = await devices.create("leg", `0 ${LEG_SECTORS} linear ${pathOf(below)} 0`);
  const neighbour = await devices.create("leg", `0 ${LEG_SECTORS} linear ${pathOf(drive)} ${LEG_SECTORS}`);
  return { drive, below, leg, neighbour };
}

/** Has writes to the leg take a while. */
async function slowDown({ drive, below }: Legs): Promise<void> {
  await dmsetup("load", below, "--table", `0 ${LEG_SECTORS} delay ${pathOf(drive)} 0 ${SLOW_MS}`);
  await dmsetup("resume", ...NO_FREEZE, below);
}

/** Has a drive keep what it gets. The end of the returned object resumes it. */
async function hang(drive: string): Promise<{ resume(): Promise<unknown> } & AsyncDisposable> {
  await dmsetup("suspend", ...NO_FREEZE, drive);
  const resume = () => dmsetup("resume", drive);
  return { resume, [Symbol.asyncDispose]: async () => void (await resume()) };
}

/** Makes a file system on a device, and a file in it whose newest bytes are in the page cache alone. */
async function makeDirty(devices: Devices, type: "ext4" | "xfs", name: string) {
  devices.keepDirtyPages();
  // With lazytime a file that is overwritten changes no journal, which would be written some seconds later.
  const folder = await mountNew(devices, type, pathOf(name), "-o", "lazytime");
  const path = join(folder, "dirty");
  writeFileSync(path, Buffer.alloc(DIRTY_BYTES));
  await command("sync", "--file-system", folder);
  await using file = await open(path, "r+");
  await file.write(Buffer.alloc(DIRTY_BYTES, 1));
  return { folder, file: path };
}

for (const type of ["ext4", "xfs"] as const)
  describe(`the wipe of a leg with a mounted ${type}`, () => {
    it("ends on a hung drive and writes no dirty page; one that freezes waits, and writes them all", async () => {
      await using devices = new Devices();
      const { drive, below, leg, neighbour } = await makeLegs(devices);
      await makeDirty(devices, type, neighbour);
      const { file } = await makeDirty(devices, type, leg);
      const written = (await countersOf(below)).sectorsWritten;
      const writtenBesides = (await countersOf(neighbour)).sectorsWritten;
      const events: string[] = [];
      await using hung = await hang(drive);
      const frozen = wipe(neighbour, []).then(() => events.push("frozen"));
      await wipe(leg);
      await expectSyncToFail(file);
      await sleep(WIPE_MS);
      events.push("resumed");
      await hung.resume();
      await frozen;
      expect(events).to.deep.equal(["resumed", "frozen"]);
      expect((await countersOf(below)).sectorsWritten).to.equal(written);
      expect((await countersOf(neighbour)).sectorsWritten).to.be.at.least(writtenBesides + DIRTY_SECTORS);
    });

    it("ends while the file system is frozen; one that freezes is refused by Linux 6.1", async () => {
      await using devices = new Devices();
      const { leg } = await makeLegs(devices);
      const { folder } = await makeDirty(devices, type, leg);
      await command("fsfreeze", "--freeze", folder);
      try {
        if (release().startsWith("6.1.")) expect((await rejection(wipe(leg, []), Error)).message).to.match(/busy/i);
        expect(await dmsetup("table", leg)).to.match(/ linear /);
        await wipe(leg);
      } finally {
        await command("fsfreeze", "--unfreeze", folder).catch(() => "the thaw writes, which fails");
      }
      expect((await rejection(readDirect(pathOf(leg), 1), Error)).message).to.match(/^EIO/);
    });

    it("with a full queue lets nothing through; the neighbour sees no error", async () => {
      await using devices = new Devices();
      const legs = await makeLegs(devices);
      const { below, leg, neighbour } = legs;
      const { folder } = await makeDirty(devices, type, leg);
      await slowDown(legs);
      const besides = await CheckedWriter.start(pathOf(neighbour), DEPTH);
      const failures = Array.from({ length: DEPTH }, (_, index) => writeUntilFailure(join(folder, `${index}`)));
      const before = (await countersOf(below)).sectorsWritten;
      await eventually(async () => {
        const { sectorsWritten, inFlight } = await countersOf(below);
        return sectorsWritten > before && inFlight > 0;
      });
      await wipe(leg);
      const { sectorsWritten, inFlight } = await countersOf(below);
      expect(inFlight).to.equal(0);
      for (const failure of await Promise.all(failures)) expect(failure).to.match(/^(EIO|EROFS)/);
      await command("sync", "--file-system", folder).catch(() => "what is dirty cannot be written");
      expect((await countersOf(below)).sectorsWritten).to.equal(sectorsWritten);
      await besides.progress();
      await besides.stop();
      expect(besides.errors).to.deep.equal([]);
      expect(await besides.faults(pathOf(neighbour))).to.deep.equal([]);
    });
  });

describe("the wipe of a leg", () => {
  it("waits for the writes that a hung drive has; one without such writes ends", async () => {
    await using devices = new Devices();
    const { drive, leg, neighbour } = await makeLegs(devices);
    const writer = await CheckedWriter.start(pathOf(leg), DEPTH);
    await writer.progress();
    await using hung = await hang(drive);
    const events: string[] = [];
    const wiped = wipe(leg).then(() => events.push("wiped"));
    await wipe(neighbour);
    await sleep(WIPE_MS);
    events.push("resumed");
    await hung.resume();
    await wiped;
    expect(events).to.deep.equal(["resumed", "wiped"]);
    const atTheFence = await readDirect(pathOf(drive), DEPTH);
    await writer.ended();
    expect(await writer.faults(pathOf(drive))).to.deep.equal([]);
    expect(await readDirect(pathOf(drive), DEPTH)).to.deep.equal(atTheFence);
    expect(new Set(writer.errors)).to.deep.equal(new Set(["EIO"]));
    await writer.stop();
  });

  it("is not done when dmsetup is killed while it waits: the leg goes on, with the wipe's table inactive", async () => {
    await using devices = new Devices();
    const { drive, leg } = await makeLegs(devices);
    const writer = await CheckedWriter.start(pathOf(leg), DEPTH);
    await writer.progress();
    await using hung = await hang(drive);
    const wiping = spawn("dmsetup", ["wipe_table", ...NO_FREEZE, leg]);
    const ended = once(wiping, "close");
    await eventually(() => /^dm_wait/.test(readFileSync(`/proc/${wiping.pid}/wchan`, "utf8")));
    wiping.kill("SIGKILL");
    await ended;
    expect(await info(leg, "tables_loaded,suspended")).to.equal("Both:Active");
    await hung.resume();
    await writer.progress();
    expect(writer.errors).to.deep.equal([]);
    await wipe(leg);
    await writer.stop();
    expect(writer.errors).to.have.length(DEPTH);
  });

  it("waits for its own drive alone; the wipe of the disk on it waits for all drives", async () => {
    await using devices = new Devices();
    const { leg } = await makeLegs(devices);
    const other = await makeLegs(devices);
    // The writer's blocks are half on the one leg and half on the other.
    const half = (DEPTH / 2) * (BLOCK_BYTES / SECTOR_BYTES);
    const table = [`0 ${half} linear ${pathOf(leg)} 0`, `${half} ${half} linear ${pathOf(other.leg)} 0`];
    const disk = await devices.create("disk", table.join("\n"));
    const writer = await CheckedWriter.start(pathOf(disk), DEPTH);
    await writer.progress();
    await using hung = await hang(other.drive);
    await wipe(leg);
    await eventually(() => writer.errors.length === DEPTH / 2);
    const events: string[] = [];
    const wiped = wipe(disk).then(() => events.push("wiped"));
    await sleep(WIPE_MS);
    events.push("resumed");
    await hung.resume();
    await wiped;
    expect(events).to.deep.equal(["resumed", "wiped"]);
    await writer.stop();
  });
});

describe("a fenced device that is still mounted", () => {
  it("frees its name by a new one, is found by its UUID, and ends at the unmount", async () => {
    await using devices = new Devices();
    const { leg } = await makeLegs(devices);
    const uuid = `DISKMESH-trial-${process.pid}-fenced`;
    const table = `0 ${LEG_SECTORS} linear ${pathOf(leg)} 0`;
    const disk = await devices.create("disk", table, "--uuid", uuid);
    const folder = await mountNew(devices, "ext4", pathOf(disk));
    await wipe(disk);
    const create = (id: string) => dmsetup("create", disk, "--uuid", id, "--table", table);
    expect((await rejection(create(`${uuid}-next`), Error)).message).to.match(/exists|busy/i);
    await dmsetup("rename", disk, `${disk}-fenced`);
    expect((await rejection(dmsetup("remove", `${disk}-fenced`), Error)).message).to.match(/busy/i);
    await dmsetup("remove", "--deferred", `${disk}-fenced`);
    const found = ["info", "--columns", "--noheadings", "--options", "name,open", "--uuid", uuid];
    expect(await dmsetup(...found)).to.equal(`${disk}-fenced:1`);
    expect((await rejection(create(uuid), Error)).message).to.match(/exists|busy/i);
    await create(`${uuid}-next`);
    expect(await info(disk, "uuid")).to.equal(`${uuid}-next`);
    await command("umount", folder);
    await eventually(async () => expect(await dmsetup("ls")).not.to.contain(`${disk}-fenced`));
    await command("mount", "-t", "tmpfs", "tmpfs", folder);
  });
});
