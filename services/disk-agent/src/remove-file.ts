import { unlink } from "node:fs/promises";

/** Removes a file; one that is not there is removed already. Node's `rm` looks twice first what it is, on other threads. */
export async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
}
