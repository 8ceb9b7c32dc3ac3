import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folders.js";
import { onExit } from "./on-exit.js";

const FILLER = "filler";
const PIECE_SIZE_BYTES = 4_096;

/** A file system of a fixed size, for tests of what happens when a disk is full. */
export class SmallDisk {
  readonly #forget: () => void;

  /** Where it is mounted. */
  constructor(readonly folder: string) {
    this.#forget = onExit(() => unmount(folder));
  }

  /** One in memory; undefined where this process may not mount anything. */
  static mount(sizeBytes: number): SmallDisk | undefined {
    const folder = temporaryFolder();
    return mounted(folder, ["-t", "tmpfs", "-o", `size=${sizeBytes},mode=0700`, "tmpfs"]);
  }

  /** ext4 in a file, with nothing set aside for root; undefined where there are no programs or loop devices for it. */
  static mountExt4(sizeBytes: number): SmallDisk | undefined {
    const image = join(temporaryFolder(), "ext4");
    writeFileSync(image, "");
    truncateSync(image, sizeBytes);
    if (spawnSync("mke2fs", ["-q", "-t", "ext4", "-m", "0", image]).status !== 0) return undefined;
    return mounted(temporaryFolder(), ["-o", "loop", image]);
  }

  /** Leaves no room but so much. */
  fill(freeBytes = 0): void {
    const path = join(this.folder, FILLER);
    const file = openSync(path, "a");
    try {
      for (;;) writeSync(file, Buffer.alloc(PIECE_SIZE_BYTES));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(file);
    }
    truncateSync(path, Math.max(0, statSync(path).size - freeBytes));
  }

  makeRoom(): void {
    rmSync(join(this.folder, FILLER), { force: true });
  }

  [Symbol.dispose](): void {
    this.#forget();
    unmount(this.folder);
  }
}

function mounted(folder: string, args: readonly string[]): SmallDisk | undefined {
  return spawnSync("mount", [...args, folder]).status === 0 ? new SmallDisk(folder) : undefined;
}

/** Lazily, so that what still has files open there cannot keep the folder from being removed. */
function unmount(folder: string): void {
  spawnSync("umount", ["-l", folder]);
}
