import { messageOf } from "@diskmesh/domain";
import type { BackupDocument } from "../backup/backup-file.js";
import { type Checked, StateSums, type StoredSums } from "../checksums.js";
import { loadedDocument } from "../memory-tables.js";
import type { Schema, Table } from "../schema.js";
import type { Claim } from "../storage.js";

/** The contents of a store that no process uses. */
export interface Examined {
  /** Latest claim. Fields that a damaged store has lost are made anew and listed in `problems`. */
  readonly claim: Claim;
  /** Documents that are as they were committed, as far as the store can tell. */
  readonly documents: readonly BackupDocument[];
  /** Damage, one line each, with the name of every omitted document. Empty when the store is whole. */
  readonly problems: readonly string[];
}

/** Collects the trustworthy documents of a store that may be damaged. */
export class Examination {
  readonly documents: BackupDocument[] = [];
  readonly problems: string[] = [];
  readonly #schema: Schema;
  readonly #sums = new StateSums();
  /** Number of omitted documents by table. */
  readonly #leftOut = new Map<string, number>();

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  /** Adds a document that matches its stored checksum. */
  add(table: string, key: string, checked: Checked): void {
    this.count(table, checked);
    try {
      loadedDocument(table, key, this.#schema[table] as Table<object> | undefined, checked);
      this.documents.push({ table, key, version: checked.version, document: checked.document });
    } catch (error) {
      this.problems.push(`${messageOf(error)}; left out`);
    }
  }

  /** Counts a document that is not part of a backup. */
  count(table: string, { checksum }: Checked): void {
    this.#sums.add(table, checksum);
  }

  leaveOut(table: string, key: unknown, why: string): void {
    this.problems.push(`table ${table}, document ${JSON.stringify(key)}: ${why}; left out`);
    this.#leftOut.set(table, (this.#leftOut.get(table) ?? 0) + 1);
  }

  /** Returns true when a table matches its committed sums once these documents are included. */
  fitsWith(table: string, documents: readonly Checked[], expected: StoredSums): boolean {
    const sums = this.#sums.of([table]);
    for (const { checksum } of documents) sums.add(table, checksum);
    const [found, wanted] = [sums.stored()[table], expected[table]];
    return found?.count === wanted?.count && found?.sum === wanted?.sum;
  }

  /** Adds a problem for each table whose sums differ by more than the omitted documents. */
  compare(expected: StoredSums): void {
    const found = this.#sums.stored();
    for (const table of new Set([...Object.keys(expected), ...Object.keys(found)])) {
      const missing = (expected[table]?.count ?? 0) - (found[table]?.count ?? 0);
      const unnamed = missing - (this.#leftOut.get(table) ?? 0);
      if (unnamed > 0) this.problems.push(`table ${table}: ${unnamed} documents are missing, and nothing names them`);
      else if (missing < 0) this.problems.push(`table ${table}: ${-missing} documents more than were committed`);
      else if (missing === 0 && found[table]?.sum !== expected[table]?.sum)
        this.problems.push(`table ${table}: some documents are of another moment, and nothing tells which`);
    }
  }
}
