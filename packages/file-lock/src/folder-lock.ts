import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import { lockFile } from "./file-lock.js";
import { describeHolder } from "./lock-holder.js";

/** Lies in the folder and is never deleted: whoever deleted it would let a second process make and lock another one. */
export const FOLDER_LOCK_NAME = "owner.lock";

export interface FolderLockOptions {
  /** False: a folder on a file system without locks is used all the same. */
  readonly required?: boolean;
}

/** Keeps every other process out of a folder that asks for the same lock. It ends with the process, however that ends. */
export class FolderLock implements Disposable {
  #fd: number | undefined;

  private constructor(fd: number) {
    this.#fd = fd;
  }

  /** The folder must exist. Throws UnavailableError, with the process that has it, when it cannot be had. */
  static async take(folder: string, { required = true }: FolderLockOptions = {}): Promise<FolderLock> {
    const path = join(folder, FOLDER_LOCK_NAME);
    const fd = open(path);
    const attempt = lockFile(fd);
    if (attempt.outcome === "locked" || (attempt.outcome === "impossible" && !required)) {
      writePid(fd);
      return new FolderLock(fd);
    }
    try {
      if (attempt.outcome === "impossible")
        throw new UnavailableError(
          `${path} cannot be locked: ${attempt.reason}; choose a folder on another file system`,
        );
      const holder = await describeHolder(fstatSync(fd, { bigint: true }), readPid(fd));
      throw new UnavailableError(
        `folder ${JSON.stringify(folder)} is in use by ${holder}: stop that process, or choose another folder`,
      );
    } finally {
      closeSync(fd);
    }
  }

  /** Lets others have the folder. */
  release(): void {
    if (this.#fd !== undefined) closeSync(this.#fd);
    this.#fd = undefined;
  }

  [Symbol.dispose](): void {
    this.release();
  }
}

function open(path: string): number {
  try {
    // No link is followed, so that nobody has another file made or locked in its place. Node adds O_CLOEXEC: no program
    // that this process starts inherits the lock. Others may not read the file, so they cannot lock it either.
    return openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  } catch (error) {
    throw new UnavailableError(`cannot open the lock file ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** Tells others where to look first, and nothing else: what counts is the lock. A full disk must not be in the way. */
function writePid(fd: number): void {
  try {
    ftruncateSync(fd);
    writeSync(fd, `${process.pid}\n`, 0);
  } catch {}
}

function readPid(fd: number): number | undefined {
  const text = Buffer.alloc(32);
  readSync(fd, text, 0, text.length, 0);
  const pid = /^(\d{1,10})\n/.exec(text.toString("latin1"))?.[1];
  return pid === undefined ? undefined : Number(pid);
}
