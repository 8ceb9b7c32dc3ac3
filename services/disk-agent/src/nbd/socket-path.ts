import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type DiskId, parseDiskId } from "@diskmesh/domain";

const SUFFIX = ".sock";

/** Returns the path of a disk's socket in the exports folder. */
export function socketPathIn(folder: string, diskId: string): string {
  return join(folder, `${diskId}${SUFFIX}`);
}

/** Returns the disk of a socket's file name; undefined for other names. */
export function diskIdOfSocket(name: string): DiskId | undefined {
  const diskId = name.slice(0, -SUFFIX.length);
  return name.endsWith(SUFFIX) ? asDiskId(diskId) : undefined;
}

/** Returns the name as a disk id; undefined when it is not valid. */
export function asDiskId(name: string): DiskId | undefined {
  try {
    return parseDiskId(name, "disk_id");
  } catch {
    return undefined;
  }
}

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
