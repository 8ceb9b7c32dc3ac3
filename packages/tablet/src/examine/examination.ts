import { messageOf } from "@diskmesh/domain";
import { type Checked, StateSums, type StoredSums } from "../documents/checksums.js";
import { loadedDocument } from "../documents/memory-tables.js";
import type { Schema, StoredDocument, Table } from "../documents/schema.js";
import type { Claim } from "../storage/storage.js";

/** Contents of a store that no process uses. */
export interface Examined {
  /** Latest claim. Fields lost by damage are generated anew and listed in `problems`. */
  readonly claim: Claim;
  /** Documents that match their checksums. */
  readonly documents: readonly StoredDocument[];
  /**
   * Descriptions of the damage, one line each, with the name of every omitted document. Empty when the store is
   * undamaged.
   */
  readonly problems: readonly string[];
  /**
   * True when the documents are a whole state that the tablet had, though with problems perhaps not its last one. False
   * when some of the state's documents are missing or older than the others.
   */
  readonly isWhole: boolean;
}

/** Collects the undamaged documents of a store. */
export class Examination {
  readonly documents: StoredDocument[] = [];
  readonly problems: string[] = [];
  readonly #schema: Schema;
  readonly #sums = new StateSums();
  readonly #leftOut = new Map<string, number>();
  #isHoled = false;

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  /** Adds a document whose checksum matched. */
  add(table: string, key: string, checked: Checked): void {
    this.count(table, checked);
    try {
      loadedDocument(table, key, this.#schema[table] as Table<object> | undefined, checked);
      this.documents.push({ table, key, version: checked.version, document: checked.document });
    } catch (error) {
      this.problems.push(`${messageOf(error)}; left out`);
      this.#isHoled = true;
    }
  }

  /** Returns the documents. `isWhole` says whether those that were passed to `add` are a whole state. */
  result(isWhole: boolean): Omit<Examined, "claim"> {
    const { documents, problems } = this;
    const isEmptied = documents.length === 0 && problems.length > 0;
    return { documents, problems, isWhole: isWhole && !this.#isHoled && !isEmptied };
  }

  /**
   * Adds a document's checksum to the sums. Documents that are not part of a backup, such as the format document, are
   * only counted.
   */
  count(table: string, { checksum }: Checked): void {
    this.#sums.add(table, checksum);
  }

  leaveOut(table: string, key: unknown, why: string): void {
    this.problems.push(`table ${table}, document ${JSON.stringify(key)}: ${why}; left out`);
    this.#leftOut.set(table, (this.#leftOut.get(table) ?? 0) + 1);
  }

  /**
   * Adds a problem for each table whose sums differ from the committed ones, unless omitted documents explain the
   * difference.
   */
  compare(expected: StoredSums): void {
    const found = this.#sums.stored();
    for (const table of new Set([...Object.keys(expected), ...Object.keys(found)])) {
      const missing = (expected[table]?.count ?? 0) - (found[table]?.count ?? 0);
      const unnamed = missing - (this.#leftOut.get(table) ?? 0);
      if (unnamed > 0)
        this.problems.push(`table ${table}: ${unnamed} documents are missing, and their keys are not known`);
      else if (missing < 0) this.problems.push(`table ${table}: ${-missing} more documents than were committed`);
      else if (missing === 0 && found[table]?.sum !== expected[table]?.sum)
        this.problems.push(`table ${table}: some documents differ from the last commit, and their keys are not known`);
    }
  }
}
