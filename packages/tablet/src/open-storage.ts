import { join, resolve } from "node:path";
import { InvalidArgumentError, type Logger, NotImplementedError } from "@diskmesh/domain";
import type { Schema } from "./documents/schema.js";
import { openEmbeddedStorage } from "./embedded/embedded-storage.js";
import { openEmbeddedEventLog } from "./embedded/events/embedded-event-log.js";
import { examineFolder } from "./embedded/examine-folder.js";
import type { Examined } from "./examine/examination.js";
import type { MongoStorageLimits } from "./mongo/mongo-storage.js";
import { examineMongoStorage, openMongoEventLog, openMongoStorage } from "./mongo/open-mongo.js";
import type { EventLog, TabletStorage } from "./storage/storage.js";

/**
 * Opens the storage of a tablet. `url` is `mongodb://...` for a MongoDB-compatible database, or the path of a folder.
 * Both can hold several tablets.
 */
export function openStorage(
  url: string,
  tabletName: string,
  options: { readonly mongo?: Partial<MongoStorageLimits> } = {},
): TabletStorage {
  checkName(tabletName);
  if (isDatabaseUrl(url)) return openMongoStorage({ url, tabletName, limits: options.mongo });
  return openEmbeddedStorage({ folder: folderOf(url, tabletName) });
}

/** Opens a tablet's event log in the same database or folder. */
export function openEventLog(url: string, tabletName: string, log?: Logger): EventLog {
  checkName(tabletName);
  if (isDatabaseUrl(url)) return openMongoEventLog({ url, tabletName });
  return openEmbeddedEventLog({ folder: folderOf(url, `${tabletName}-events`), log });
}

export interface ExamineOptions {
  readonly schema: Schema;
  /** Lease time of a database. */
  readonly leaseTimeMs: number;
  /**
   * False reads a damaged folder's last whole state before the damage. True also reads what lies beside and behind the
   * damage. A database is read completely in either case.
   */
  readonly withGaps: boolean;
}

/**
 * Reads the content of a storage, damaged or not, without changing it. Rejects with UnavailableError while a process
 * uses it. On a database, a process uses it if it renews the lease within `leaseTimeMs`.
 */
export async function examineStorage(
  url: string,
  tabletName: string,
  { schema, leaseTimeMs, withGaps }: ExamineOptions,
): Promise<Examined> {
  checkName(tabletName);
  if (isDatabaseUrl(url)) return examineMongoStorage({ url, tabletName }, schema, leaseTimeMs);
  return examineFolder({ folder: folderOf(url, tabletName), schema, withGaps });
}

/**
 * Watches the TLS files named in a database URL, and calls back once with the reason when the process must restart to
 * use changed ones. Does nothing for a folder. Rejects with UnavailableError for an unusable file.
 */
export async function watchStorageTls(
  url: string,
  log: Logger,
  onChanged: (reason: Error) => void,
): Promise<{ close(): void }> {
  if (!isDatabaseUrl(url)) return { close: () => {} };
  const { watchTlsFiles } = await import("./mongo/tls-watch.js");
  return watchTlsFiles(url, log, onChanged);
}

/**
 * Returns true for a database, which several processes can share: one leads, others stand by. A folder belongs to one
 * process.
 */
export function isDatabaseUrl(url: string): boolean {
  return /^mongodb(\+srv)?:\/\//.test(url);
}

/** Returns a database's host and name for messages, without user and password; undefined for a folder. */
export function databaseName(url: string): string | undefined {
  if (!isDatabaseUrl(url)) return undefined;
  const [address = ""] = url.split("?");
  return `MongoDB at ${address.slice(Math.max(address.indexOf("//") + 2, address.lastIndexOf("@") + 1))}`;
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
  // Only the scheme is named, because the rest of the URL may contain a password.
  if (scheme !== undefined)
    throw new NotImplementedError(
      `storage ${scheme}://... is not supported; give the path of a folder or mongodb://...`,
    );
  return join(resolve(url), name);
}
