import { basename, dirname, join } from "node:path";
import { FOLDER_LOCK_NAME } from "@diskmesh/file-lock";
import type { Files } from "./files.js";

/** Returns true for an error of the operating system with one of these codes. */
export function hasCode(error: unknown, ...codes: readonly string[]): boolean {
  return error instanceof Error && codes.includes(String((error as NodeJS.ErrnoException).code));
}

/**
 * Creates a folder and its missing parents durably. Syncs the parent of an existing folder, too, because an earlier
 * process may have been killed after it created the folder.
 */
export async function ensureFolder(files: Files, folder: string): Promise<void> {
  try {
    await files.makeFolder(folder);
  } catch (error) {
    if (hasCode(error, "EEXIST")) {
      // A parent that this user may not read was not made by this program, and need not be synced.
      await files.syncFolder(dirname(folder)).catch((unsynced: unknown) => {
        if (!hasCode(unsynced, "EACCES", "EPERM")) throw unsynced;
      });
      return;
    }
    if (!hasCode(error, "ENOENT")) throw error;
    await ensureFolder(files, dirname(folder));
    await files.makeFolder(folder);
  }
  await files.syncFolder(dirname(folder));
}

/** Returns the names in a folder, without that of the lock; undefined when there is no folder. */
export function namesIn(files: Files, folder: string): string[] | undefined {
  try {
    return files.list(folder).filter((name) => name !== FOLDER_LOCK_NAME);
  } catch (error) {
    if (hasCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** Returns the folder in which a restore builds the tablet of `folder`. */
export function restoringOf(folder: string): string {
  return `${folder}.restoring`;
}

/** Returns a free name beside `folder` for the tablet that a restore replaces. */
export function freeReplacedName(files: Files, folder: string): string {
  const beside = new Set(files.list(dirname(folder)));
  let n = 1;
  while (beside.has(`${basename(folder)}.replaced-${n}`)) n++;
  return `${folder}.replaced-${n}`;
}

/** Returns the folders beside `folder` that a restore made: tablets that it replaced, and an unfinished one. */
export function restoredBeside(files: Files, folder: string): string[] {
  const parent = dirname(folder);
  return (namesIn(files, parent) ?? [])
    .map((name) => join(parent, name))
    .filter((path) => path === restoringOf(folder) || path.startsWith(`${folder}.replaced-`))
    .sort();
}
