import { randomUUID } from "node:crypto";
import { MongoClient } from "mongodb";
import type { StorageLocation } from "../../contract/storage-location.js";
import type { TabletStorage } from "../../storage/storage.js";
import { openMongoStorage } from "../open-mongo.js";

const DATABASE = "diskmesh_test";

/**
 * Opens a location for the contract suite and its child processes, which import this module by `moduleUrl`. Candidates
 * do not wait for leases, so that several leaders compete.
 * @public
 */
export function openLocation(argument: string): TabletStorage {
  const { url, tabletName } = JSON.parse(argument) as { url: string; tabletName: string };
  return openMongoStorage({ url, tabletName, limits: { leaseTimeMs: 0, applyIntervalMs: 5 } });
}

export function newLocation(
  serverUrl: string,
): StorageLocation & { readonly url: string; readonly tabletName: string } {
  const tabletName = newTabletName();
  const url = databaseUrl(serverUrl);
  const argument = JSON.stringify({ url, tabletName });
  return {
    url,
    tabletName,
    argument,
    open: () => openLocation(argument),
    moduleUrl: import.meta.url,
    remove: () => removeTablet(url, tabletName),
  };
}

export function newTabletName(): string {
  return `test-${randomUUID().slice(0, 13)}`;
}

/** Inserts a database name into the URL, before its options. */
export function databaseUrl(serverUrl: string, database = DATABASE): string {
  const [address = "", options] = serverUrl.split("?");
  return `${address.replace(/^([^/]*\/\/[^/]*)(\/.*)?$/, `$1/${database}`)}${options === undefined ? "" : `?${options}`}`;
}

export async function removeTablet(url: string, tabletName: string): Promise<void> {
  await withDatabase(url, async (database) => {
    await database.collection<{ _id: string }>("tablets").deleteOne({ _id: tabletName });
    for (const { name } of await database.listCollections().toArray()) {
      if (name.startsWith(`${tabletName}.`) || name === `${tabletName}-events`) await database.dropCollection(name);
    }
  });
}

export async function withDatabase<T>(
  url: string,
  action: (database: ReturnType<MongoClient["db"]>) => Promise<T>,
): Promise<T> {
  const client = new MongoClient(url);
  try {
    return await action(client.db());
  } finally {
    await client.close();
  }
}
