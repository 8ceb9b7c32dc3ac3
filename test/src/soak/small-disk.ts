import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, mkdirSync, openSync, rmSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { onExit } from "@diskmesh/testkit";
import { makeDeviceFile } from "../mesh/device-files.js";

const SIZE_BYTES = 64 * 1024 * 1024;
/** First in large steps, then until not even the smallest write fits. */
const STEPS_BYTES = [1024 * 1024, 64 * 1024, 4 * 1024, 512];

/** A small file system in place of a folder, which can be filled up. */
export class SmallDisk {
  readonly #forget: () => void;

  private constructor(readonly folder: string) {
    // Else the folder of the test could not be removed.
    this.#forget = onExit(() => this.close());
  }

  /** Why there can be none here; undefined when there can. */
  static problem(): string | undefined {
    for (const program of ["mke2fs", "mount", "losetup"])
      if (spawnSync(program, ["-V"]).error !== undefined) return `${program} is not on PATH`;
    if (spawnSync("losetup", ["--find"]).status !== 0) return "this machine has no loop devices";
    return undefined;
  }

  /** Over an empty folder. */
  static mount(folder: string): SmallDisk {
    const image = makeDeviceFile(join(dirname(folder), `${folder.split("/").at(-1)}.ext4`), SIZE_BYTES);
    mkdirSync(folder, { recursive: true });
    // None of it set aside for root, whose processes these are.
    execFileSync("mke2fs", ["-q", "-t", "ext4", "-m", "0", image], { stdio: "pipe" });
    execFileSync("mount", ["-o", "loop", image, folder], { stdio: "pipe" });
    return new SmallDisk(folder);
  }

  fill(): void {
    const file = openSync(this.#filler, "w");
    try {
      for (const step of STEPS_BYTES) while (written(file, step));
    } finally {
      closeSync(file);
    }
  }

  empty(): void {
    rmSync(this.#filler, { force: true });
  }

  close(): void {
    this.#forget();
    spawnSync("umount", ["--lazy", this.folder]);
  }

  get #filler(): string {
    return join(this.folder, "lost+found", "filler");
  }
}

/** False when the disk is full. */
function written(file: number, bytes: number): boolean {
  try {
    writeSync(file, Buffer.alloc(bytes));
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOSPC") return false;
    throw error;
  }
}
