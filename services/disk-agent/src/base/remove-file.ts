import { unlink } from "node:fs/promises";

/**
 * Removes a file; succeeds when it does not exist. Faster than Node's `rm`, which checks the file's type twice on other
 * threads.
 */
export async function removeFile(path: string): Promise<void> {
  await unlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error;
  });
}
