import { mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beginBlockFlood, EngineScene, specOf } from "@diskmesh/disk-agent/testing";
import type { DeviceId, DiskId } from "@diskmesh/domain";
import { eventually, temporaryFolder } from "@diskmesh/testkit";
import { expect } from "chai";
import { CheckedWriter } from "./checked-writer.js";
import { countersAt, Devices, info, makeFileSystem, NO_FREEZE, pathOf, SECTOR_BYTES } from "./device-mapper.js";
import { call, unwind } from "./engine-drives.js";
import { expectSyncToFail } from "./failing-files.js";
import { count, noteLongest } from "./tally.js";

const DISK = "disk-1" as DiskId;
/** Orders of a test that fence its disk. `ROUNDS` repeats the test. */
const FENCES = 20;
/** The smallest xfs has 300 MiB. */
const DEVICE_BYTES = 320 * 1024 * 1024;
const SECTORS = DEVICE_BYTES / SECTOR_BYTES;
const DIRTY_BYTES = 4 * 1024 * 1024;
const DEPTH = 32;
const DEPTH_BESIDES = 4;
/** Leaves the processor to the fence. */
const REST_MS = 50;
const SLOW_MS = 20;
/** Wait of an order for a drive that hangs. */
const PENDING_MS = 200;
/** Time in ms after a grant in which a late write would land. */
const LATE_MS = 100;
const PAUSE_MS = 1_000;
const STAMP = { tabletId: "tablet-1", incarnation: "incarnation-1", tabletGeneration: 1, deviceGeneration: 0 };

interface Writers {
  /** Writes to the other half of the drive. */
  readonly neighbour: CheckedWriter;
  /** Writes to another drive, so that its pauses are those of the machine. */
  readonly elsewhere: CheckedWriter;
}

/**
 * A disk on one half of a drive, in runs that have a leg each. Its session is fenced again and again, while another disk
 * has the other half.
 */
class HalvedDrive {
  readonly #scene: EngineScene;
  #session = 1;

  readonly #runs: ReturnType<typeof divide>;

  private constructor(
    folder: string,
    runs: number,
    /** Device of device-mapper that is the half. */
    readonly half: string,
    /** Its name in /sys/block. */
    private readonly kernelName: string,
  ) {
    const options = { deviceBytes: DEVICE_BYTES, whyNoBlockDevices: "the test uses sockets" };
    this.#scene = new EngineScene("kernel", { folder }, options);
    this.#runs = divide("c" as DeviceId, runs);
  }

  /** `halfTable` returns the table of the half on a drive. */
  static async make(devices: Devices, halfTable: (drive: string) => string, runs: number): Promise<HalvedDrive> {
    const folder = temporaryFolder();
    mkdirSync(join(folder, "exports"));
    for (const name of ["a", "b"]) symlinkSync(await devices.drive(SECTORS), join(folder, name));
    const drive = await devices.drive(2 * SECTORS);
    const half = await devices.create("half", halfTable(drive));
    const halves = [`0 ${SECTORS} linear ${pathOf(half)} 0`, `${SECTORS} ${SECTORS} linear ${drive} ${SECTORS}`];
    const shared = await devices.create("shared", halves.join("\n"));
    symlinkSync(pathOf(shared), join(folder, "shared"));
    const made = new HalvedDrive(folder, runs, half, `dm-${await info(half, "minor")}`);
    devices.later(() => unwind(made.#scene));
    // The fence of a failed test may wait for it.
    devices.later(() => call("dmsetup", "resume", half));
    await made.#scene.start();
    return made;
  }

  async startWriters(): Promise<Writers> {
    const start = async (id: string) =>
      CheckedWriter.start(await this.#scene.publish(`disk-on-${id}`, 1, [id], DEVICE_BYTES), DEPTH_BESIDES, REST_MS);
    return { neighbour: await start("d"), elsewhere: await start("b") };
  }

  /** Publishes the disk in the next session, and returns the path of its device. */
  async publish(): Promise<string> {
    this.#session += 2;
    expect(await this.#open(this.#session)).to.equal("done");
    const { extents, ...spec } = specOf(DISK, this.#session, ["c"]);
    const inRuns = this.#runs.flatMap((run) => extents.map((extent) => ({ ...extent, ...run })));
    return realpathSync(await this.#scene.exports.serve({ ...spec, extents: inRuns }));
  }

  /** Orders the session that fences all runs of the disk, and returns what differs of their outcomes within the time. */
  fence(waitMs = 60_000): Promise<string> {
    return this.#open(this.#session + 1, waitMs);
  }

  /** Has to be true while the half hangs. */
  set hangs(hangs: boolean) {
    this.#scene.fixture.hasHungDrive = hangs;
  }

  async #open(number: number, waitMs = 60_000): Promise<string> {
    const wish = { number, purpose: "disk" as const, diskId: DISK, holderHostId: "host-1" };
    const came = await this.#scene.fixture.sessions.open(this.#runs, wish, STAMP, { waitMs });
    return [...new Set(came.map(({ outcome }) => outcome))].join(" and ");
  }

  /** Requests that have reached the half. */
  counters() {
    return countersAt(this.kernelName);
  }
}

/** Returns runs of the same size that have all bytes of a device. */
function divide(deviceId: DeviceId, runs: number) {
  const sizeBytes = DEVICE_BYTES / runs;
  return Array.from({ length: runs }, (_, index) => ({ deviceId, offsetBytes: index * sizeBytes, sizeBytes }));
}

interface Kind {
  /** Gives a published disk its load, and returns what is to be checked once the fence is granted. */
  readonly load: (drive: HalvedDrive, path: string) => Promise<() => Promise<void>>;
  readonly halfTable?: (drive: string) => string;
  /** Runs of the disk, all of which an order fences; 1 by default. */
  readonly runs?: number;
  readonly fence?: (drive: HalvedDrive, writers: Writers) => Promise<void>;
}

const linear = (drive: string) => `0 ${SECTORS} linear ${drive} 0`;

async function fenceAtOnce(drive: HalvedDrive): Promise<void> {
  expect(await drive.fence()).to.equal("done");
}

async function fenceHung(drive: HalvedDrive, { neighbour }: Writers): Promise<void> {
  await call("dmsetup", "suspend", ...NO_FREEZE, drive.half);
  drive.hangs = true;
  expect(await drive.fence(PENDING_MS)).to.equal("pending");
  await neighbour.progress();
  expect(await drive.fence(PENDING_MS)).to.equal("pending");
  await call("dmsetup", "resume", drive.half);
  drive.hangs = false;
  expect(await drive.fence()).to.match(/^(done|already)$/);
}

async function writeOften(drive: HalvedDrive, path: string): Promise<() => Promise<void>> {
  const flood = await beginBlockFlood(path, DEPTH);
  await eventually(() => flood.writes() > 0 && drive.counters().inFlight > 0);
  return async () => {
    await flood.ended;
    expect([...flood.errors]).to.deep.equal(["EIO"]);
  };
}

/** Mounts the disk, whose file system is made at the first time. */
function mounting(devices: Devices, type: "ext4" | "xfs", state: "dirty" | "frozen"): Kind["load"] {
  const folder = temporaryFolder();
  let isMade = false;
  let isMounted = false;
  const unmount = async () => {
    if (isMounted) await call("umount", folder);
    isMounted = false;
  };
  return async (_drive, path) => {
    if (!isMade) {
      // Before the end of the engine, which a mount would hold up.
      devices.later(unmount);
      await makeFileSystem(type, path);
    }
    await call("mount", "-t", type, path, folder);
    isMounted = true;
    const file = join(folder, "dirty");
    if (!isMade) writeFileSync(file, Buffer.alloc(DIRTY_BYTES));
    isMade = true;
    await call("sync", "--file-system", folder);
    if (state === "frozen") await call("fsfreeze", "--freeze", folder);
    else writeFileSync(file, Buffer.alloc(DIRTY_BYTES, 1), { flag: "r+" });
    return async () => {
      if (state === "dirty") await expectSyncToFail(file);
      else await call("fsfreeze", "--unfreeze", folder).catch(() => "the thaw writes, which fails");
      await unmount();
    };
  };
}

/** Fences all runs of a disk `FENCES` times. */
async function fenceOften(devices: Devices, kind: Kind): Promise<void> {
  const { load, halfTable = linear, runs = 1, fence = fenceAtOnce } = kind;
  devices.keepDirtyPages();
  const blocked = blockedTasks();
  const drive = await HalvedDrive.make(devices, halfTable, runs);
  const { neighbour, elsewhere } = await drive.startWriters();
  for (let orders = 0; orders < FENCES; orders++) {
    const check = await load(drive, await drive.publish());
    for (const each of [neighbour, elsewhere]) each.longestMs = 0;
    await fence(drive, { neighbour, elsewhere });
    const { sectorsWritten, inFlight } = drive.counters();
    expect(inFlight, "requests in flight at the grant").to.equal(0);
    await neighbour.progress();
    await elsewhere.progress();
    notePauses("the neighbour", neighbour);
    notePauses("another drive", elsewhere);
    await check();
    await sleep(LATE_MS);
    expect(drive.counters().sectorsWritten, "sectors written since the grant").to.equal(sectorsWritten);
    count("orders that fence");
    count("fences", runs);
  }
  for (const each of [neighbour, elsewhere]) await each.stop();
  expect([...neighbour.errors, ...elsewhere.errors]).to.deep.equal([]);
  await eventually(() => expect(blockedTasks(), "tasks that no signal ends").to.deep.equal(blocked));
}

function notePauses(where: string, { longestMs }: CheckedWriter): void {
  noteLongest(`longest pause of ${where} in ms`, longestMs);
  if (longestMs > PAUSE_MS) count(`fences with a pause of ${where} above 1 s`);
}

/** Returns the tasks that wait for something that no signal ends, the kernel's own included. */
function blockedTasks(): string[] {
  return readdirSync("/proc").filter((id) => {
    if (!/^\d+$/.test(id)) return false;
    try {
      return readFileSync(`/proc/${id}/stat`, "utf8").replace(/^.*\)/, "").startsWith(" D ");
    } catch {
      return false;
    }
  });
}

const slow = (drive: string) => `0 ${SECTORS} delay ${drive} 0 ${SLOW_MS}`;
const KINDS: Readonly<Record<string, (devices: Devices) => Kind>> = {
  "of an ext4, mounted and dirty": (devices) => ({ load: mounting(devices, "ext4", "dirty") }),
  "of an xfs, mounted and dirty": (devices) => ({ load: mounting(devices, "xfs", "dirty") }),
  "of a frozen ext4": (devices) => ({ load: mounting(devices, "ext4", "frozen") }),
  "of a frozen xfs": (devices) => ({ load: mounting(devices, "xfs", "frozen") }),
  "of a full queue on a slow drive": () => ({ load: writeOften, halfTable: slow, runs: 4 }),
  "of writers on a drive that hangs": () => ({ load: writeOften, fence: fenceHung }),
  "of writers": () => ({ load: writeOften, runs: 8 }),
};

describe("fences beside a published run of the same drive", () => {
  for (const [name, kindFor] of Object.entries(KINDS))
    it(`${name} let no byte through, and leave the neighbour alone`, async () => {
      await using devices = new Devices();
      await fenceOften(devices, kindFor(devices));
    });
});
