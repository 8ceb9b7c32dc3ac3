import { constants } from "node:fs";
import { chmod, chown, type FileHandle, open, opendir } from "node:fs/promises";
import { InvalidStateError } from "@diskmesh/domain";

/** Linux's flag for a descriptor that names a file without opening it. Node has no constant for it. */
const O_PATH = 0o10000000;
/** Read and write for the group. */
const FILE_BITS = 0o060;
/** Also access to the folder, and the group of new files is that of the folder. */
const FOLDER_BITS = 0o2070;
/** Mode of a file without its set-user-ID and set-group-ID bits, which the kernel, too, clears at a change of group. */
const MODE_OF_FILE = 0o1777;
/** Bound of the descriptors that the walk holds; as many folders as the longest path that the kernel takes. */
const MAX_DEPTH = 2_000;

/**
 * Lets a group use all files of a file system. The root is changed last, so its group and mode tell that everything below
 * was changed before, and the next mount needs no walk.
 *
 * Programs of a pod may exchange names during the walk. Each file is therefore opened once, as an entry of its folder's
 * descriptor and never through a link, and then inspected and changed by its own descriptor.
 */
export async function giveToGroup(root: string, groupId: number): Promise<void> {
  await using folder = await open(root, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  const { gid, mode, dev } = await folder.stat();
  if (gid === groupId && (mode & FOLDER_BITS) === FOLDER_BITS) return;
  await giveFolder(folder, { groupId, device: dev }, 1);
}

interface Walk {
  readonly groupId: number;
  /** The file system's device number. Other file systems that are mounted below the root stay unchanged. */
  readonly device: number;
}

async function giveFolder(folder: FileHandle, walk: Walk, depth: number): Promise<void> {
  if (depth > MAX_DEPTH)
    throw new InvalidStateError(
      `the volume has more than ${MAX_DEPTH} folders in one another: its group was not changed`,
    );
  for await (const { name } of await opendir(pathOf(folder)))
    await giveEntry(`${pathOf(folder)}/${name}`, walk, depth).catch(unlessVanished);
  const { mode } = await folder.stat();
  await chown(pathOf(folder), -1, walk.groupId);
  await chmod(pathOf(folder), (mode & 0o7777) | FOLDER_BITS);
}

async function giveEntry(path: string, walk: Walk, depth: number): Promise<void> {
  await using entry = await open(path, O_PATH | constants.O_NOFOLLOW);
  const found = await entry.stat();
  if (found.dev !== walk.device) return;
  if (found.isDirectory()) return await giveFolder(entry, walk, depth + 1);
  await chown(pathOf(entry), -1, walk.groupId);
  if (!found.isSymbolicLink()) await chmod(pathOf(entry), (found.mode & MODE_OF_FILE) | FILE_BITS);
}

/** Path that leads to the descriptor's file itself, also when that is a symbolic link. */
const pathOf = ({ fd }: FileHandle): string => `/proc/self/fd/${fd}`;

/** A program may remove files during the walk. */
function unlessVanished(error: unknown): void {
  if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
}
