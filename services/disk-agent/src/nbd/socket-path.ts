import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname } from "node:path";

/**
 * A short name for a Unix socket. The kernel takes at most 107 bytes, and a folder may be deeper than that; through its
 * descriptor every folder is near. The name holds until it is disposed of.
 */
export async function shortSocketPath(path: string): Promise<{ path: string } & AsyncDisposable> {
  const folder = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  return {
    path: `/proc/self/fd/${folder.fd}/${basename(path)}`,
    [Symbol.asyncDispose]: () => folder.close(),
  };
}
