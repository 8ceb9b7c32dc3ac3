import { ResourceExhaustedError } from "@diskmesh/domain";
import type { Versioned } from "./checksums.js";
import { compactDocument } from "./compact-document.js";
import { checkKey, freezeDocument, sealDocument } from "./document.js";
import { MemoryTable } from "./memory-table.js";
import type {
  Conclude,
  PageOptions,
  ReadableTable,
  Schema,
  StoredChange,
  StoredDocument,
  Table,
  Tables,
  Transaction,
  WritableTable,
} from "./schema.js";

/** A key changed by the running transaction, with the former document (to undo) and the current one (to store). */
interface Replaced {
  readonly table: MemoryTable<object>;
  readonly version: number;
  readonly tableName: string;
  readonly key: string;
  readonly previous: object | undefined;
  current: object | undefined;
  sizeBytes: number;
}

/**
 * Upper bound of a change's size without its document and key: the table's name, and an engine's additions such as
 * checksum and version.
 */
const CHANGE_OVERHEAD_BYTES = 192;

export interface Transacted<T> {
  readonly result: T;
  /** At most one change per key, in the order in which the keys were first changed. */
  readonly changes: StoredChange[];
  /** Upper bound of the stored size of the changes. */
  readonly sizeBytes: number;
}

/** All tables of a tablet in memory. Synchronous and independent of storages, so that models can be tested with it. */
export class MemoryTables<S extends Schema> {
  readonly tables: Tables<S>;
  readonly #byName = new Map<string, { definition: Table<object>; memory: MemoryTable<object> }>();
  readonly #transaction: Transaction<S>;
  /** Set while a transaction runs. */
  #replaced: Map<string, Replaced> | undefined;

  constructor(schema: S) {
    const tables: Record<string, ReadableTable<object>> = {};
    const transaction: Record<string, WritableTable<object>> = {};
    for (const [name, definition] of Object.entries<Table<object>>(schema)) {
      if (!/^[a-z][A-Za-z0-9]{0,62}$/.test(name)) {
        throw new TypeError(
          `${JSON.stringify(name)} is not a table name: a lower-case letter, then letters and digits`,
        );
      }
      const memory = new MemoryTable<object>(name, definition);
      this.#byName.set(name, { definition, memory });
      tables[name] = new TableView(memory);
      transaction[name] = new TransactionTable(memory, {
        put: (doc) => this.#put(name, doc),
        delete: (key) => this.#delete(name, key),
      });
    }
    for (const { definition, memory } of this.#byName.values()) {
      if (definition.rows === undefined) continue;
      const others = this.#byName.get(definition.rows.table);
      if (others === undefined)
        throw new TypeError(`rows are derived from table ${definition.rows.table}, which does not exist`);
      memory.deriveRows(definition.rows, others.memory);
    }
    this.tables = tables as unknown as Tables<S>;
    this.#transaction = transaction as unknown as Transaction<S>;
  }

  /**
   * Runs `fn`, which may read and change tables and must not await. Undoes all changes when `fn` throws or the changes
   * exceed the size limit.
   */
  transact<T>(
    fn: (tx: Transaction<S>) => T,
    limits: { readonly sizeBytesMax?: number } = {},
    conclude?: { readonly run: Conclude<S>; readonly note: unknown },
  ): Transacted<T> {
    if (this.#replaced !== undefined) throw new TypeError("a transaction runs inside another one");
    const replaced = new Map<string, Replaced>();
    this.#replaced = replaced;
    try {
      const result = fn(this.#transaction);
      refusePromise(result);
      const cause =
        replaced.size === 0 ? undefined : conclude?.run(this.#transaction, [...replaced.values()], conclude.note);
      return { result, ...collect(replaced, limits.sizeBytesMax ?? Number.POSITIVE_INFINITY, cause) };
    } catch (error) {
      for (const { table, key, previous } of replaced.values()) table.replace(key, previous);
      throw error;
    } finally {
      this.#replaced = undefined;
      this.#updateRows();
    }
  }

  /**
   * Adds a document read from the storage, each key once. Returns a change to store if the document was upgraded. The
   * tables must not be read or changed before `endLoad`.
   */
  load(tableName: string, key: string, stored: Versioned): StoredChange | undefined {
    const table = this.#byName.get(tableName);
    const document = loadedDocument(tableName, key, table?.definition, stored);
    const { definition, memory } = table as NonNullable<typeof table>;
    // Uses the document's own key string, so that the string `key` can be freed.
    memory.load(definition.key(document), document);
    const version = versionOf(definition);
    return version === stored.version ? undefined : { table: tableName, key, document, version, previous: stored };
  }

  endLoad(): void {
    for (const { memory } of this.#byName.values()) memory.endLoad();
    this.#updateRows();
  }

  get size(): number {
    let size = 0;
    for (const { memory } of this.#byName.values()) size += memory.size;
    return size;
  }

  /** Returns the keys of a table's documents; empty for a table that the schema lacks. */
  keys(tableName: string): readonly string[] {
    return [...(this.#byName.get(tableName)?.memory.documents().keys() ?? [])];
  }

  /** Returns a change that stores the current document again, or deletes the key if there is no document. */
  asIs(tableName: string, key: string): StoredChange {
    const table = this.#byName.get(tableName);
    const [document, version] = [table?.memory.get(key) ?? null, versionOf(table?.definition)];
    return { table: tableName, key, document, version, previous: document && { document, version } };
  }

  /** Returns all documents as of now, unaffected by later changes. */
  snapshot(): Iterable<StoredDocument> {
    const tables = [...this.#byName].map(([table, { definition, memory }]) => ({
      table,
      version: versionOf(definition),
      documents: memory.documents(),
    }));
    return (function* () {
      for (const { table, version, documents } of tables)
        for (const [key, document] of documents.entries()) yield { table, key, version, document };
    })();
  }

  #updateRows(): void {
    for (const { memory } of this.#byName.values()) memory.updateRows();
  }

  #put(tableName: string, document: object): void {
    const { definition, memory } = this.#writable(tableName);
    const documentSizeBytes = sealDocument(document);
    const key = definition.key(document);
    checkKey(tableName, key);
    // A document that a later load would refuse must not be stored.
    const wrong = definition.check?.(document);
    if (wrong !== undefined) throw new TypeError(`table ${tableName}, document ${JSON.stringify(key)}: ${wrong}`);
    const kept = this.#keptOf(tableName, key, memory, document);
    this.#note(tableName, key, memory.replace(key, kept), kept, documentSizeBytes);
  }

  /**
   * Returns the frozen object to keep. It is the given object if that is the table's current document or the document
   * before the transaction, otherwise a copy. Putting back the document before the transaction then counts as no
   * change, because both are the same object.
   */
  #keptOf(tableName: string, key: string, memory: MemoryTable<object>, document: object): object {
    if (memory.get(key) === document) return document;
    if (this.#replaced?.get(idOf(tableName, key))?.previous === document) return document;
    return compactDocument(document);
  }

  #delete(tableName: string, key: string): boolean {
    const { memory } = this.#writable(tableName);
    if (!memory.has(key)) return false;
    this.#note(tableName, key, memory.replace(key, undefined), undefined, 0);
    return true;
  }

  #writable(tableName: string): { definition: Table<object>; memory: MemoryTable<object> } {
    if (this.#replaced === undefined)
      throw new TypeError(`table ${tableName} is written after its transaction has ended`);
    return this.#byName.get(tableName) as { definition: Table<object>; memory: MemoryTable<object> };
  }

  #note(
    tableName: string,
    key: string,
    previous: object | undefined,
    current: object | undefined,
    documentSizeBytes: number,
  ): void {
    const { definition, memory: table } = this.#writable(tableName);
    const version = versionOf(definition);
    const replaced = this.#replaced as Map<string, Replaced>;
    const sizeBytes = changeSizeBytes(key, documentSizeBytes);
    const id = idOf(tableName, key);
    const earlier = replaced.get(id);
    if (earlier === undefined) replaced.set(id, { table, version, tableName, key, previous, current, sizeBytes });
    else Object.assign(earlier, { current, sizeBytes });
  }
}

/** Returns an upper bound of a change's stored size. */
export function changeSizeBytes(key: string, documentSizeBytes: number): number {
  return documentSizeBytes + CHANGE_OVERHEAD_BYTES + 3 * key.length;
}

function idOf(tableName: string, key: string): string {
  return `${tableName}\0${key}`;
}

export function versionOf(definition: Table<object> | undefined): number {
  return definition?.version ?? 1;
}

/** Returns a stored document upgraded to the table's current version. Throws when the table refuses it. */
export function loadedDocument(
  tableName: string,
  key: string,
  definition: Table<object> | undefined,
  stored: Versioned,
): object {
  if (definition === undefined) throw new TypeError(`there is no table ${tableName}`);
  const document = upgraded(tableName, key, definition, stored);
  // A storage returns plain JSON, so freezing suffices.
  if (document === stored.document) freezeDocument(document);
  else sealDocument(document);
  const wrong = definition.check?.(document);
  if (wrong !== undefined) throw new TypeError(`table ${tableName}, document ${JSON.stringify(key)}: ${wrong}`);
  const ownKey = definition.key(document);
  if (ownKey === key) return document;
  throw new TypeError(
    `table ${tableName}: the document stored as ${JSON.stringify(key)} has the key ${JSON.stringify(ownKey)}`,
  );
}

function upgraded(tableName: string, key: string, definition: Table<object>, stored: Versioned): object {
  const version = versionOf(definition);
  if (stored.version === version) return stored.document;
  const which = `table ${tableName}, document ${JSON.stringify(key)}: it has version ${stored.version}`;
  if (stored.version > version) throw new TypeError(`${which}, but this program supports at most ${version}`);
  if (definition.upgrade === undefined) throw new TypeError(`${which}, from which no upgrade leads to ${version}`);
  return definition.upgrade(stored.document, stored.version);
}

function collect(
  replaced: Map<string, Replaced>,
  sizeBytesMax: number,
  cause: string | undefined,
): { changes: StoredChange[]; sizeBytes: number } {
  const changes: StoredChange[] = [];
  let totalBytes = 0;
  for (const { version, tableName, key, previous, current, sizeBytes } of replaced.values()) {
    if (current === previous) continue;
    changes.push({
      table: tableName,
      key,
      document: current ?? null,
      version,
      previous: previous === undefined ? null : { document: previous, version },
      ...(cause === undefined ? {} : { cause }),
    });
    totalBytes += sizeBytes;
  }
  if (totalBytes > sizeBytesMax) {
    throw new ResourceExhaustedError(
      `a transaction of ${totalBytes} bytes in ${changes.length} changes is larger than the limit of ${sizeBytesMax} bytes; nothing of it was done; do the work in smaller steps`,
    );
  }
  return { changes, sizeBytes: totalBytes };
}

function refusePromise(result: unknown): void {
  if (typeof (result as PromiseLike<unknown> | undefined)?.then !== "function") return;
  // Handles a rejection of the promise that a callback returned by mistake, because nothing else awaits it.
  Promise.resolve(result).catch(() => {});
  throw new TypeError("a transaction must not await: its function returned a promise");
}

class TableView<Doc extends object> implements ReadableTable<Doc> {
  readonly #memory: MemoryTable<Doc>;

  constructor(memory: MemoryTable<Doc>) {
    this.#memory = memory;
  }

  get size(): number {
    return this.#memory.size;
  }

  get(key: string): Doc | undefined {
    return this.#memory.get(key);
  }

  has(key: string): boolean {
    return this.#memory.has(key);
  }

  entries(options?: PageOptions): Iterable<Doc> {
    return this.#memory.entries(options);
  }

  by(index: string, value: string, options?: PageOptions): Iterable<Doc> {
    return this.#memory.by(index, value, options);
  }

  count(index: string, value: string): number {
    return this.#memory.count(index, value);
  }

  last(...of: [] | [index: string, value: string]): Doc | undefined {
    return this.#memory.last(...of);
  }

  rows(after: string, before: string): Iterable<unknown> {
    return this.#memory.rows(after, before);
  }
}

class TransactionTable<Doc extends object> extends TableView<Doc> implements WritableTable<Doc> {
  readonly put: (doc: Doc) => void;
  readonly delete: (key: string) => boolean;

  constructor(memory: MemoryTable<Doc>, writes: Pick<WritableTable<Doc>, "put" | "delete">) {
    super(memory);
    this.put = writes.put;
    this.delete = writes.delete;
  }
}
