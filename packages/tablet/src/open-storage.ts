import { join, resolve } from "node:path";
import { InvalidArgumentError, NotImplementedError } from "@diskmesh/domain";
import { openLmdbEventLog } from "./lmdb/lmdb-event-log.js";
import { openLmdbStorage } from "./lmdb/lmdb-storage.js";
import type { EventLog, TabletStorage } from "./storage.js";

/** The storage of a tablet: `url` is the path of a folder, in which each tablet has its own. */
export function openStorage(url: string, tabletName: string): TabletStorage {
  return openLmdbStorage({ folder: folderOf(url, tabletName) });
}

/** The event log that goes with a tablet, beside it in the same folder. */
export function openEventLog(url: string, tabletName: string): EventLog {
  return openLmdbEventLog({ folder: folderOf(url, `${tabletName}-events`) });
}

function folderOf(url: string, name: string): string {
  if (url === "") throw new InvalidArgumentError("the storage is empty; give the path of a folder");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1];
  // The rest of the address may hold a password.
  if (scheme !== undefined)
    throw new NotImplementedError(`storage ${scheme}://... is not supported; give the path of a folder`);
  if (!/^[a-z][a-z0-9-]{0,62}$/.test(name)) {
    throw new InvalidArgumentError(
      `${JSON.stringify(name)} is not a tablet name: lower-case letters, digits and hyphens`,
    );
  }
  return join(resolve(url), name);
}
