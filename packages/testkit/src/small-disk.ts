import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folders.js";
import { onExit } from "./on-exit.js";

const PIECE_SIZE_BYTES = 4_096;

/** A file system of a fixed size, for tests of what happens when a disk is full. */
export class SmallDisk {
  readonly #forget: () => void;

  readonly #filler: string;

  private constructor(
    /** Where it is mounted. */
    readonly folder: string,
    fillerFolder: string,
  ) {
    this.#forget = onExit(() => unmount(folder));
    this.#filler = join(folder, fillerFolder, "filler");
  }

  /** One in memory; undefined where this process may not mount anything. */
  static mount(sizeBytes: number): SmallDisk | undefined {
    const folder = temporaryFolder();
    if (!isMounted(folder, "-t", "tmpfs", "-o", `size=${sizeBytes},mode=0700`, "tmpfs")) return undefined;
    return new SmallDisk(folder, ".");
  }

  /**
   * ext4 in a file, over a folder that is empty, with nothing set aside for root; undefined where there are no programs or
   * loop devices for it. What fills it lies where nobody looks who owns the folder.
   */
  static mountExt4(sizeBytes: number, folder = temporaryFolder()): SmallDisk | undefined {
    const image = join(temporaryFolder(), "ext4");
    writeFileSync(image, "");
    truncateSync(image, sizeBytes);
    if (spawnSync("mke2fs", ["-q", "-t", "ext4", "-m", "0", image]).status !== 0) return undefined;
    if (!isMounted(folder, "-o", "loop", image)) return undefined;
    return new SmallDisk(folder, "lost+found");
  }

  /** Leaves no room but so much. */
  fill(freeBytes = 0): void {
    const file = openSync(this.#filler, "a");
    try {
      for (;;) writeSync(file, Buffer.alloc(PIECE_SIZE_BYTES));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
    } finally {
      closeSync(file);
    }
    truncateSync(this.#filler, Math.max(0, statSync(this.#filler).size - freeBytes));
  }

  makeRoom(): void {
    rmSync(this.#filler, { force: true });
  }

  [Symbol.dispose](): void {
    this.#forget();
    unmount(this.folder);
  }
}

function isMounted(folder: string, ...args: readonly string[]): boolean {
  return spawnSync("mount", [...args, folder]).status === 0;
}

/** Lazily, so that what still has files open there cannot keep the folder from being removed. */
function unmount(folder: string): void {
  spawnSync("umount", ["-l", folder]);
}
