import { sealDocument } from "../documents/document.js";
import { changeSizeBytes, type MemoryTables } from "../documents/memory-tables.js";
import type { Schema, StoredChange } from "../documents/schema.js";
import type { LeaderState } from "./storage.js";

/** Returns the leader's in-memory state for comparison with the storage. `current` throws once the leader has ended. */
export function leaderState<S extends Schema>(
  current: () => MemoryTables<S>,
  durable: () => Promise<void>,
  enqueue: (changes: readonly StoredChange[], sizeBytes: number) => void,
): LeaderState {
  return {
    size: () => current().size,
    keys: (table) => current().keys(table),
    asIs: (table, key) => current().asIs(table, key),
    durable,
    commit: (change) => {
      current();
      const { key, document } = change;
      enqueue([change], changeSizeBytes(key, document === null ? 0 : sealDocument(document)));
      return durable();
    },
  };
}
