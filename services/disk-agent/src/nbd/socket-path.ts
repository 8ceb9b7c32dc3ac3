import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname } from "node:path";

/** Maximum length of a Unix socket's path on Linux. */
const SOCKET_PATH_MAX_BYTES = 107;

/**
 * Returns a short path of a Unix socket, through a descriptor of its folder, because the folder's own path may exceed
 * the kernel's limit. Valid until it is disposed of.
 */
export async function shortSocketPath(path: string): Promise<{ path: string } & AsyncDisposable> {
  if (Buffer.byteLength(path) <= SOCKET_PATH_MAX_BYTES) return { path, [Symbol.asyncDispose]: async () => {} };
  const folder = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  return {
    path: `/proc/self/fd/${folder.fd}/${basename(path)}`,
    [Symbol.asyncDispose]: () => folder.close(),
  };
}
