import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { DiskFullError } from "@diskmesh/domain";
import type { Files } from "./files.js";
import { hasCode, namesIn } from "./folders.js";

const NAME = "reserve";
const SIZE_BYTES = 2 ** 20;
/** A file system allocates at least this much. */
const BLOCK_BYTES = 4_096;

/**
 * A file that holds space for starts on a full disk: a start writes a new journal, without which a leader could not even
 * be read. Commits never use it.
 */
export class Reserve {
  readonly #files: Files;
  readonly #folder: string;

  constructor(files: Files, folder: string) {
    this.#files = files;
    this.#folder = folder;
  }

  /** Repeats `work` while it fails on a full disk, each time with twice as much space of the reserve. */
  async use<T>(work: () => Promise<T>): Promise<T> {
    for (let givenUpBytes = BLOCK_BYTES; ; givenUpBytes *= 2) {
      try {
        return await work();
      } catch (error) {
        const cause = error instanceof DiskFullError ? error.cause : error;
        if (!hasCode(cause, "ENOSPC", "EDQUOT") || !(await this.#giveUp(givenUpBytes).catch(() => false))) throw error;
      }
    }
  }

  /** Fills the reserve up when the disk has plenty of space. Failures are harmless until the disk is full. */
  async fill(): Promise<void> {
    try {
      if ((await this.#files.freeBytes(this.#folder)) < 2 * SIZE_BYTES) return;
      await this.#withFile(async (file, sizeBytes) => {
        if (sizeBytes >= SIZE_BYTES) return;
        // Random, because a file system may compress or leave out equal bytes.
        await file.appendFile(randomBytes(SIZE_BYTES - sizeBytes));
        await file.datasync();
      });
    } catch {}
  }

  /** Returns false when nothing is left to give up. */
  async #giveUp(bytes: number): Promise<boolean> {
    if (!namesIn(this.#files, this.#folder)?.includes(NAME)) return false;
    return this.#withFile(async (file, sizeBytes) => {
      if (sizeBytes === 0) return false;
      await file.truncate(Math.max(0, sizeBytes - bytes));
      await file.datasync();
      return true;
    });
  }

  async #withFile<T>(work: (file: Awaited<ReturnType<Files["open"]>>, sizeBytes: number) => Promise<T>): Promise<T> {
    const file = await this.#files.open(join(this.#folder, NAME), "a");
    try {
      return await work(file, (await file.stat()).size);
    } finally {
      await file.close();
    }
  }
}
