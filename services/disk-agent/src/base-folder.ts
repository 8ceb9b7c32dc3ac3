import { chmod, mkdir, rm, stat } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { messageOf, UnavailableError } from "@diskmesh/domain";

export interface BaseFolder {
  readonly cacheFile: string;
  readonly exports: string;
  readonly dynamicDisks: string;
  readonly persistentDisks: string;
}

/** Makes the folders that are missing. */
export async function makeBaseFolder(baseFolder: string): Promise<BaseFolder> {
  const folders = {
    cacheFile: join(baseFolder, "agent-cache.json"),
    exports: join(baseFolder, "exports"),
    dynamicDisks: join(baseFolder, "data", "dynamic_disks"),
    persistentDisks: join(baseFolder, "data", "persistent_disks"),
  };
  try {
    await mkdir(folders.exports, { recursive: true, mode: 0o700 });
    // Whoever can reach a socket can write to the disk.
    await chmod(folders.exports, 0o700);
    await mkdir(folders.dynamicDisks, { recursive: true });
    await mkdir(folders.persistentDisks, { recursive: true });
    await rm(`${folders.cacheFile}.new`, { force: true });
  } catch (error) {
    throw new UnavailableError(`base folder ${JSON.stringify(baseFolder)} cannot be used: ${messageOf(error)}`, {
      cause: error,
    });
  }
  return folders;
}

/**
 * Keeps a second agent out of a base folder: two would grant sessions behind each other's back. The lock is a name in
 * the kernel's abstract socket space, which goes with the process however it ends.
 */
export async function lockBaseFolder(baseFolder: string): Promise<AsyncDisposable> {
  const { dev, ino } = await stat(baseFolder, { bigint: true });
  const lock = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    lock.once("error", (error: NodeJS.ErrnoException) => {
      const taken = error.code === "EADDRINUSE";
      const text = taken ? "another agent is using it: stop that one first" : messageOf(error);
      reject(
        new UnavailableError(`base folder ${JSON.stringify(baseFolder)} cannot be locked: ${text}`, { cause: error }),
      );
    });
    lock.listen(`\0diskmesh-agent-${dev}-${ino}`, resolve);
  });
  lock.unref();
  return {
    [Symbol.asyncDispose]: () => new Promise((resolve) => lock.close(() => resolve())),
  };
}
