import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
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
  ) {
    this.#forget = onExit(() => unmount(folder));
    this.#filler = join(folder, "filler");
  }

  /** Returns whether this process may mount file systems. */
  static canMount(): boolean {
    using disk = SmallDisk.mount(PIECE_SIZE_BYTES);
    return disk !== undefined;
  }

  /** Mounts a tmpfs; returns undefined when this process may not mount. */
  static mount(sizeBytes: number): SmallDisk | undefined {
    const folder = temporaryFolder();
    const args = ["-t", "tmpfs", "-o", `size=${sizeBytes},mode=0700`, "tmpfs", folder];
    return spawnSync("mount", args).status === 0 ? new SmallDisk(folder) : undefined;
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

/** Unmounts lazily, because open files would otherwise keep the folder from being removed. */
function unmount(folder: string): void {
  spawnSync("umount", ["-l", folder]);
}
