import { spawnSync } from "node:child_process";
import { closeSync, openSync, rmSync, statSync, truncateSync, writeSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "./folders.js";
import { onExit } from "./on-exit.js";

const FILLER = "filler";
const PIECE_SIZE_BYTES = 4_096;

/** A file system in memory, of a fixed size, for tests of what happens when a disk is full. */
export class SmallDisk {
  readonly #forget: () => void;

  private constructor(readonly folder: string) {
    this.#forget = onExit(() => unmount(folder));
  }

  /** Undefined where this process may not mount anything. */
  static mount(sizeBytes: number): SmallDisk | undefined {
    const folder = temporaryFolder();
    const mounted = spawnSync("mount", ["-t", "tmpfs", "-o", `size=${sizeBytes},mode=0700`, "tmpfs", folder]);
    return mounted.status === 0 ? new SmallDisk(folder) : undefined;
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

/** Lazily, so that what still has files open there cannot keep the folder from being removed. */
function unmount(folder: string): void {
  spawnSync("umount", ["-l", folder]);
}
