import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, statSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folders.js";
import { onExit } from "./on-exit.js";

const PIECE_SIZE_BYTES = 4_096;

/** A file system of a fixed size, for tests of a full disk. */
export class SmallDisk {
  readonly #forget: () => void;

  readonly #filler: string;

  private constructor(
    /** Mount point. */
    readonly folder: string,
    fillerFolder: string,
  ) {
    this.#forget = onExit(() => unmount(folder));
    this.#filler = join(folder, fillerFolder, "filler");
  }

  /** Returns whether this process may mount file systems. */
  static canMount(): boolean {
    using disk = SmallDisk.mount(PIECE_SIZE_BYTES);
    return disk !== undefined;
  }

  /** Mounts a tmpfs; returns undefined when this process may not mount. */
  static mount(sizeBytes: number): SmallDisk | undefined {
    const folder = temporaryFolder();
    if (!isMounted(folder, "-t", "tmpfs", "-o", `size=${sizeBytes},mode=0700`, "tmpfs")) return undefined;
    return new SmallDisk(folder, ".");
  }

  /**
   * Mounts an ext4 image over an empty folder, without blocks reserved for root. Returns undefined without mke2fs or
   * loop devices. `fill` writes below `lost+found`, which the service under test does not read.
   */
  static mountExt4(sizeBytes: number, folder = temporaryFolder()): SmallDisk | undefined {
    const image = join(temporaryFolder(), "ext4");
    writeFileSync(image, "");
    truncateSync(image, sizeBytes);
    if (spawnSync("mke2fs", ["-q", "-t", "ext4", "-m", "0", image]).status !== 0) return undefined;
    if (!isMounted(folder, "-o", "loop", image)) return undefined;
    return new SmallDisk(folder, "lost+found");
  }

  /** Fills the file system except for `freeBytes`. */
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

/** Unmounts lazily, because open files would otherwise keep the folder from being removed. */
function unmount(folder: string): void {
  spawnSync("umount", ["-l", folder]);
}
