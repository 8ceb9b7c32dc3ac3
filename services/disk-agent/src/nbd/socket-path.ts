import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { type DiskId, parseDiskId } from "@diskmesh/domain";

const SUFFIX = ".sock";

/** Where a disk is served, in the folder of all exports. */
export function socketPathIn(folder: string, diskId: string): string {
  return join(folder, `${diskId}${SUFFIX}`);
}

/** The disk of a socket by its name; undefined when it has no name of ours. */
export function diskIdOfSocket(name: string): DiskId | undefined {
  const diskId = name.slice(0, -SUFFIX.length);
  return name.endsWith(SUFFIX) ? asDiskId(diskId) : undefined;
}

/** Undefined when no disk can have that name. */
export function asDiskId(name: string): DiskId | undefined {
  try {
    return parseDiskId(name, "disk_id");
  } catch {
    return undefined;
  }
}

/** What the kernel takes. */
const SOCKET_PATH_MAX_BYTES = 107;

/**
 * A short name for a Unix socket. A folder may be deeper than the kernel takes; through its descriptor every folder is
 * near. The name holds until it is disposed of.
 */
export async function shortSocketPath(path: string): Promise<{ path: string } & AsyncDisposable> {
  if (Buffer.byteLength(path) <= SOCKET_PATH_MAX_BYTES) return { path, [Symbol.asyncDispose]: async () => {} };
  const folder = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
  return {
    path: `/proc/self/fd/${folder.fd}/${basename(path)}`,
    [Symbol.asyncDispose]: () => folder.close(),
  };
}
