import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const SECTOR_BYTES = 512;
const COMMAND_TIMEOUT_MS = 50_000;
const PREFIX = "dm-trial";
let made = 0;

/** Runs a program, and resolves to its output. Rejects when it fails, or does not end in time. */
async function command(program: string, ...args: string[]): Promise<string> {
  const { stdout } = await run(program, args, { timeout: COMMAND_TIMEOUT_MS, killSignal: "SIGKILL" });
  return stdout.trim();
}

// The virtual machine has no udev: dmsetup makes device files itself.
process.env.DM_DISABLE_UDEV = "1";

function dmsetup(...args: string[]): Promise<string> {
  return command("dmsetup", ...args);
}

/** Fence: I/O in flight ends, all later I/O fails. */
export function wipe(name: string): Promise<string> {
  return dmsetup("wipe_table", "--noflush", "--nolockfs", name);
}

export function pathOf(name: string): string {
  return `/dev/mapper/${name}`;
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
    const path = await command("losetup", "--find", "--show", file);
    this.later(async () => {
      await command("losetup", "--detach", path);
      rmSync(folder, { recursive: true });
    });
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

  /** Registers work for the end of the test. */
  later(undo: () => Promise<unknown>): void {
    this.#undo.push(undo);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#undo.reverse()) await undo();
  }
}
