import { setImmediate as nextTurn } from "node:timers/promises";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { StateSums } from "../checksums.js";
import { textAt } from "../place.js";
import type { OnDocument } from "../storage.js";
import type { OnEntry } from "./data-file.js";
import { META } from "./environment.js";
import { TableRecords } from "./record.js";

/** A load lets the process do other things, such as answer health checks, after so many documents. */
const LOAD_TURN_DOCUMENTS = 4_096;

/** Of one table; the same index is the same document. */
interface ReadTable {
  readonly records: TableRecords;
  readonly keys: string[];
  readonly documents: object[];
  readonly versions: number[];
}

/** The documents of a data file, from when it was read, which is before the claim, until they are loaded. */
export class ReadDocuments {
  readonly #folder: string;
  readonly #byTable = new Map<string, ReadTable>();
  readonly #sums = new StateSums();
  /** Why they are of no use. Nobody is to hear of it before the store's format was found to be known. */
  #failure: InvalidStateError | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  readonly add: OnEntry = (tableName, key, value) => {
    if (tableName === META || this.#failure !== undefined) return;
    const table = this.#table(tableName);
    const keyText = textAt(key);
    try {
      const { document, version, checksum } = table.records.decode(key, value);
      table.keys.push(keyText);
      table.documents.push(document);
      table.versions.push(version);
      this.#sums.add(tableName, checksum);
    } catch (error) {
      this.#failure = damagedDocument(this.#folder, tableName, keyText, error);
    }
  };

  /** Calls back with the documents of these tables; returns their sums. */
  async load(tables: readonly string[], onDocument: OnDocument): Promise<StateSums> {
    if (this.#failure !== undefined) throw this.#failure;
    let loaded = 0;
    for (const name of tables) {
      const { keys, documents, versions } = this.#table(name);
      for (const [index, key] of keys.entries()) {
        onDocument(name, key, { document: documents[index] as object, version: versions[index] as number });
        if (++loaded % LOAD_TURN_DOCUMENTS === 0) await nextTurn();
      }
    }
    return this.#sums.of(tables);
  }

  #table(name: string): ReadTable {
    let table = this.#byTable.get(name);
    if (table === undefined) {
      table = { records: new TableRecords(name), keys: [], documents: [], versions: [] };
      this.#byTable.set(name, table);
    }
    return table;
  }
}

export function damagedDocument(folder: string, table: string, key: string, error: unknown): InvalidStateError {
  return new InvalidStateError(
    `the folder ${folder} is damaged: table ${table}, document ${JSON.stringify(key)}: ${messageOf(error)}; restore it from a backup`,
  );
}
