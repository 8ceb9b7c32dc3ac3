import { closeSync, constants, fstatSync, ftruncateSync, openSync, readSync, writeSync } from "node:fs";
import { join } from "node:path";
import { messageOf, UnavailableError } from "@diskmesh/domain";
import { lockFile } from "./file-lock.js";
import { describeHolder } from "./lock-holder.js";

/** The lock file is never deleted: a second process could otherwise create and lock a new file of the same name. */
export const FOLDER_LOCK_NAME = "owner.lock";

export interface FolderLockOptions {
  /** With false, a folder on a file system without locks is used unlocked. */
  readonly required?: boolean;
}

/**
 * Excludes every other process that takes the same lock from a folder. The lock ends when the process does, for any
 * reason.
 */
export class FolderLock implements Disposable {
  #fd: number | undefined;

  private constructor(fd: number) {
    this.#fd = fd;
  }

  /**
   * Takes the lock of an existing folder. Throws UnavailableError, which names the holding process, when another one
   * holds it.
   */
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
    // O_NOFOLLOW keeps an attacker from having another file created or locked. Node adds O_CLOEXEC, so no child process
    // inherits the lock. Mode 0600 keeps other users from locking the file.
    return openSync(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  } catch (error) {
    throw new UnavailableError(`cannot open the lock file ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/**
 * Writes the pid as a hint for other processes. Failures are ignored, because the lock itself decides and a full disk
 * must not prevent it.
 */
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
