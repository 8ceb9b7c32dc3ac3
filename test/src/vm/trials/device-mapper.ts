import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
export const SECTOR_BYTES = 512;
const COMMAND_TIMEOUT_MS = 50_000;
const PREFIX = "dm-trial";
const WRITEBACK_INTERVALS = ["/proc/sys/vm/dirty_writeback_centisecs", "/proc/sys/fs/xfs/xfssyncd_centisecs"];
const HOUR_CENTISECONDS = 360_000;
let made = 0;

/** Runs a program, and resolves to its output. Rejects when it fails, or does not end in time. */
export async function command(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(program, args, { timeout: COMMAND_TIMEOUT_MS, killSignal: "SIGKILL" });
  return stdout.trim();
}

// The virtual machine has no udev: dmsetup makes device files itself.
process.env.DM_DISABLE_UDEV = "1";

export function dmsetup(...args: string[]): Promise<string> {
  return command("dmsetup", ...args);
}

/** Options without which a suspend freezes the file system of a device first, which writes its dirty pages. */
export const NO_FREEZE = ["--noflush", "--nolockfs"];

/** Fence: I/O in flight ends, all later I/O fails. */
export function wipe(name: string, options: readonly string[] = NO_FREEZE): Promise<string> {
  return dmsetup("wipe_table", ...options, name);
}

/** Returns columns of `dmsetup info`, with colons between them. */
export function info(name: string, columns: string): Promise<string> {
  return dmsetup("info", "--columns", "--noheadings", "--options", columns, name);
}

export function pathOf(name: string): string {
  return `/dev/mapper/${name}`;
}

/** Counters of a device since it was made. */
export interface Counters {
  readonly writes: number;
  readonly sectorsWritten: number;
  /** Requests that have not ended. */
  readonly inFlight: number;
  /** Flushes that have ended, of drives alone. */
  readonly flushes: number;
}

export async function countersOf(name: string): Promise<Counters> {
  return countersAt(`dm-${await info(name, "minor")}`);
}

/** Returns the counters of a device by its name in /sys/block. */
export function countersAt(kernelName: string): Counters {
  const fields = readFileSync(`/sys/block/${kernelName}/stat`, "utf8").trim().split(/\s+/).map(Number);
  const [, , , , writes = Number.NaN, , sectorsWritten = Number.NaN, , inFlight = Number.NaN] = fields;
  return { writes, sectorsWritten, inFlight, flushes: fields[15] ?? Number.NaN };
}

/** Makes devices for a test, and removes them in reverse order. */
export class Devices implements AsyncDisposable {
  readonly #undo: (() => Promise<unknown>)[] = [];

  /** Makes a drive: a loop device on a file of zeros, and returns its path. */
  async drive(sectors: number): Promise<string> {
    const folder = mkdtempSync(join(tmpdir(), `${PREFIX}-`));
    const file = join(folder, "drive");
    writeFileSync(file, "");
    truncateSync(file, sectors * SECTOR_BYTES);
    this.later(async () => rmSync(folder, { recursive: true }));
    return this.loop(file);
  }

  /** Makes a loop device on a file, and returns its path. */
  async loop(file: string, ...options: string[]): Promise<string> {
    const path = await command("losetup", "--find", "--show", ...options, file);
    this.later(() => command("losetup", "--detach", path));
    return path;
  }

  /** Makes a device with this table, and returns its name. */
  async create(kind: string, table: string, ...options: string[]): Promise<string> {
    const name = `${PREFIX}-${process.pid}-${made++}-${kind}`;
    await dmsetup("create", name, "--table", table, ...options);
    // A device that a failed test left suspended would hold its removal.
    this.later(async () => {
      await wipe(name);
      await dmsetup("remove", "--retry", name);
    });
    return name;
  }

  /** Leaves the moment at which dirty pages and journals are written to the test, until its end. */
  keepDirtyPages(): void {
    for (const path of WRITEBACK_INTERVALS.filter((each) => existsSync(each))) {
      const before = readFileSync(path, "utf8");
      // With 0 the pages of a new device are written at once.
      writeFileSync(path, `${HOUR_CENTISECONDS}`);
      this.later(async () => writeFileSync(path, before));
    }
  }

  /** Registers work for the end of the test. */
  later(undo: () => Promise<unknown>): void {
    this.#undo.push(undo);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#undo.reverse()) await undo();
  }
}

export async function makeFileSystem(type: "ext4" | "xfs", path: string): Promise<void> {
  // No thread of ext4 writes the rest of a new file system later.
  const options = { ext4: ["-F", "-E", "lazy_itable_init=0,lazy_journal_init=0"], xfs: ["-f"] }[type];
  await command(`mkfs.${type}`, "-q", ...options, path);
}

/** Mounts a device, and returns the folder. Makes its file system first. */
export async function mountNew(
  devices: Devices,
  type: "ext4" | "xfs",
  path: string,
  ...mountOptions: string[]
): Promise<string> {
  await makeFileSystem(type, path);
  const folder = mkdtempSync(join(tmpdir(), `${PREFIX}-`));
  execFileSync("mount", ["-t", type, ...mountOptions, path, folder], { timeout: COMMAND_TIMEOUT_MS });
  devices.later(async () => {
    await command("umount", folder);
    rmSync(folder, { recursive: true });
  });
  return folder;
}
