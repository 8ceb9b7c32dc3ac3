import { execFile } from "node:child_process";
import { mkdtemp, open, readFile, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { whyNoBlockDevices } from "@diskmesh/disk-agent/block-devices";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { programOnPath } from "@diskmesh/process-cpi";

const run = promisify(execFile);
const PROGRAM_TIMEOUT_MS = 30_000;
const MKFS = "mkfs.ext4";

/** Returns why this machine cannot mount disks; undefined when it can. */
export async function whyNoMounts(): Promise<string | undefined> {
  const missing = [MKFS, "mount"].find((program) => programOnPath(program) === undefined);
  return (await whyNoBlockDevices()) ?? (missing && `${missing} is not on PATH`);
}

/** A block device with a file system, mounted, and one file on it. */
export class MountedDisk implements AsyncDisposable {
  readonly file: string;

  private constructor(private readonly folder: string) {
    this.file = join(folder, "story");
  }

  /** Makes a file system on the device, and mounts it. */
  static async make(device: string): Promise<MountedDisk> {
    await run(MKFS, ["-q", "-F", device], { timeout: PROGRAM_TIMEOUT_MS });
    return MountedDisk.mount(device);
  }

  static async mount(device: string): Promise<MountedDisk> {
    const folder = await mkdtemp(join(tmpdir(), "diskmesh-"));
    await run("mount", [device, folder], { timeout: PROGRAM_TIMEOUT_MS });
    return new MountedDisk(folder);
  }

  /** Writes the file, and resolves once it is on the devices. */
  async write(data: Buffer): Promise<void> {
    await using file = await open(this.file, "w");
    await file.writeFile(data);
    await file.sync();
  }

  /** Writes the file's bytes again in place, and resolves once they are on the devices. */
  async rewrite(data: Buffer): Promise<void> {
    await using file = await open(this.file, "r+");
    await file.write(data, 0, data.length, 0);
    await file.sync();
  }

  read(): Promise<Buffer> {
    return readFile(this.file);
  }

  /** Writes after the disk has moved, and returns the error. Throws when the write reaches a device. */
  async writeLate(): Promise<string> {
    try {
      await this.write(Buffer.alloc(4096, "late"));
    } catch (error) {
      return messageOf(error);
    }
    throw new InvalidStateError(`the late write to ${this.file} was accepted`);
  }

  /** Unmounts, lazily when the device is gone and the file system cannot be written any more. */
  async release(): Promise<void> {
    const unmounted = run("umount", [this.folder], { timeout: PROGRAM_TIMEOUT_MS });
    await unmounted.catch(() => run("umount", ["--lazy", this.folder], { timeout: PROGRAM_TIMEOUT_MS }));
    await rmdir(this.folder);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }
}
