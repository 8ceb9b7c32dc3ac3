import { existsSync, readdirSync, renameSync } from "node:fs";
import { FolderLock } from "@diskmesh/file-lock";

/**
 * Gives a folder that is not empty another name, so that nothing of it is lost by a mistake. Throws UnavailableError
 * while a process uses it.
 */
export async function setAside(folder: string): Promise<void> {
  if (!existsSync(folder) || readdirSync(folder).length === 0) return;
  const lock = await FolderLock.take(folder);
  let aside = 1;
  while (existsSync(`${folder}.replaced-${aside}`)) aside++;
  renameSync(folder, `${folder}.replaced-${aside}`);
  lock.release();
}
