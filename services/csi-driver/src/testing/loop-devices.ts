import { spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync, rmSync, symlinkSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { skipBecause, skipWithout, temporaryFolder } from "@diskmesh/testkit";
import { run } from "./run.js";

/** Skips the tests of a suite where this process may not make loop devices or mounts. */
export function needLoopDevices(context: Mocha.Context): void {
  skipWithout(context, "losetup", "mkfs.ext4", "fsck.ext4", "blkid", "wipefs", "flock", "mount", "umount");
  if (process.getuid?.() !== 0) skipBecause(context, "it mounts block devices, which needs root");
  if (spawnSync("losetup", ["--find"]).status !== 0) skipBecause(context, "there are no loop devices");
}

/** Links to loop devices over files, in place of those that an agent makes for its attached disks. */
export class LoopDevices implements Disposable {
  readonly folder = temporaryFolder();
  readonly #files = temporaryFolder();
  readonly #devices = new Map<string, string>();

  /** Links a loop device over the disk's file, whose content it keeps between attachments. Returns the device's path. */
  attach(diskCid: string, sizeBytes: number): string {
    const file = this.fileOf(diskCid);
    closeSync(openSync(file, "a"));
    truncateSync(file, sizeBytes);
    const device = run("losetup", "--find", "--show", file).trim();
    this.#devices.set(diskCid, device);
    symlinkSync(device, join(this.folder, diskCid));
    return device;
  }

  /** Gives the device its file's new size. */
  grow(diskCid: string, sizeBytes: number): void {
    truncateSync(this.fileOf(diskCid), sizeBytes);
    run("losetup", "--set-capacity", this.deviceOf(diskCid));
  }

  /** Removes the link and the device. The kernel keeps a mounted device until its unmount. */
  detach(diskCid: string): void {
    rmSync(join(this.folder, diskCid), { force: true });
    run("losetup", "--detach", this.deviceOf(diskCid));
    this.#devices.delete(diskCid);
  }

  deviceOf(diskCid: string): string {
    return this.#devices.get(diskCid) ?? "";
  }

  fileOf(diskCid: string): string {
    return join(this.#files, `${diskCid}.img`);
  }

  [Symbol.dispose](): void {
    for (const device of this.#devices.values()) {
      const mounts = readFileSync("/proc/self/mounts", "utf8")
        .split("\n")
        .filter((line) => line.startsWith(`${device} `));
      for (const mount of mounts) spawnSync("umount", ["--lazy", mount.split(" ")[1] ?? ""]);
    }
    for (const diskCid of [...this.#devices.keys()]) this.detach(diskCid);
  }
}
