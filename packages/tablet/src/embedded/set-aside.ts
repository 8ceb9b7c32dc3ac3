import { existsSync, readdirSync, renameSync } from "node:fs";
import { FolderLock } from "@diskmesh/file-lock";

/**
 * Renames a non-empty folder instead of deleting it, so that a mistake loses nothing. Throws UnavailableError while a
 * process uses it.
 */
export async function setAside(folder: string): Promise<void> {
  if (!existsSync(folder) || readdirSync(folder).length === 0) return;
  const lock = await FolderLock.take(folder);
  let aside = 1;
  while (existsSync(`${folder}.replaced-${aside}`)) aside++;
  renameSync(folder, `${folder}.replaced-${aside}`);
  lock.release();
}
