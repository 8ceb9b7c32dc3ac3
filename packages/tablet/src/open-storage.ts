import { join, resolve } from "node:path";
import { InvalidArgumentError, NotImplementedError } from "@diskmesh/domain";
import { openLmdbEventLog } from "./lmdb/lmdb-event-log.js";
import { openLmdbStorage } from "./lmdb/lmdb-storage.js";
import type { MongoStorageLimits } from "./mongo/mongo-storage.js";
import { openMongoEventLog, openMongoStorage } from "./mongo/open-mongo.js";
import type { EventLog, TabletStorage } from "./storage.js";

/**
 * The storage of a tablet: `url` is the address of a MongoDB-compatible database, `mongodb://...`, or the path of a
 * folder. Several tablets can be in one.
 */
export function openStorage(
  url: string,
  tabletName: string,
  options: { readonly mongo?: Partial<MongoStorageLimits> } = {},
): TabletStorage {
  checkName(tabletName);
  if (isDatabaseUrl(url)) return openMongoStorage({ url, tabletName, limits: options.mongo });
  return openLmdbStorage({ folder: folderOf(url, tabletName) });
}

/** The event log that goes with a tablet, beside it in the same database or folder. */
export function openEventLog(url: string, tabletName: string): EventLog {
  checkName(tabletName);
  if (isDatabaseUrl(url)) return openMongoEventLog({ url, tabletName });
  return openLmdbEventLog({ folder: folderOf(url, `${tabletName}-events`) });
}

/** Whether several processes can have it, of which one leads and the others stand by; a folder is one process's own. */
export function isDatabaseUrl(url: string): boolean {
  return /^mongodb(\+srv)?:\/\//.test(url);
}

function checkName(tabletName: string): void {
  if (/^[a-z][a-z0-9-]{0,55}$/.test(tabletName)) return;
  throw new InvalidArgumentError(
    `${JSON.stringify(tabletName)} is not a tablet name: a lower-case letter, then up to 55 lower-case letters, digits and hyphens`,
  );
}

function folderOf(url: string, name: string): string {
  if (url === "") throw new InvalidArgumentError("the storage is empty; give the path of a folder or mongodb://...");
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(url)?.[1];
  // The rest of the address may hold a password.
  if (scheme !== undefined)
    throw new NotImplementedError(
      `storage ${scheme}://... is not supported; give the path of a folder or mongodb://...`,
    );
  return join(resolve(url), name);
}
