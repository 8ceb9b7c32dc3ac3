import { chmod, lchown, lstat, opendir } from "node:fs/promises";
import { join } from "node:path";

/** Read and write for the group. */
const FILE_BITS = 0o060;
/** Also access to the folder, and the group of new files is that of the folder. */
const FOLDER_BITS = 0o2070;

/**
 * Lets a group use all files of a file system. The root is changed last, so its group and mode tell that everything below
 * was changed before, and the next mount needs no walk.
 */
export async function giveToGroup(root: string, groupId: number): Promise<void> {
  const { gid, mode } = await lstat(root);
  if (gid === groupId && (mode & FOLDER_BITS) === FOLDER_BITS) return;
  await giveFolder(root, groupId);
}

async function giveFolder(folder: string, groupId: number): Promise<void> {
  for await (const entry of await opendir(folder)) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await giveFolder(path, groupId);
    else await give(path, groupId, FILE_BITS);
  }
  await give(folder, groupId, FOLDER_BITS);
}

async function give(path: string, groupId: number, bits: number): Promise<void> {
  const found = await lstat(path);
  await lchown(path, found.uid, groupId);
  if (!found.isSymbolicLink()) await chmod(path, (found.mode & 0o7777) | bits);
}
