import { InvalidStateError, messageOf } from "@diskmesh/domain";
import type { Versioned } from "../documents/checksums.js";
import type { MemoryTables } from "../documents/memory-tables.js";
import type { Schema, StoredChange } from "../documents/schema.js";
import type { Snapshot, TabletStorage } from "./storage.js";

/** Loads all documents into memory; resolves with changes that store the upgraded documents. */
export async function loadAll<S extends Schema>(
  memory: MemoryTables<S>,
  tabletName: string,
  storage: TabletStorage,
  snapshot: Snapshot,
): Promise<StoredChange[]> {
  const upgrades: StoredChange[] = [];
  await storage.load((table, key, stored) => {
    const upgrade = loadDocument(memory, tabletName, table, key, stored);
    if (upgrade !== undefined) upgrades.push(upgrade);
  }, snapshot);
  memory.endLoad();
  return upgrades;
}

/** Loads a stored document into memory; returns a change to store if the document was upgraded. */
function loadDocument<S extends Schema>(
  memory: MemoryTables<S>,
  tabletName: string,
  table: string,
  key: string,
  stored: Versioned,
): StoredChange | undefined {
  try {
    return memory.load(table, key, stored);
  } catch (error) {
    throw new InvalidStateError(
      `tablet ${tabletName}: its storage has data that this version cannot use: ${messageOf(error)}; run the version that wrote it, or restore a backup`,
      { cause: error },
    );
  }
}
