import { InvalidStateError, messageOf } from "@diskmesh/domain";
import type { Versioned } from "./checksums.js";
import type { MemoryTables } from "./memory-tables.js";
import type { Schema } from "./schema.js";
import type { StoredChange } from "./storage.js";

/** Puts a stored document into memory; returns what the storage must be told when it was upgraded. */
export function loadDocument<S extends Schema>(
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
      `tablet ${tabletName}: its storage holds what this version cannot use: ${messageOf(error)}; run the version that wrote it, or restore a backup`,
      { cause: error },
    );
  }
}
