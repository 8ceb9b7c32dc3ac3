import type { Versioned } from "./checksums.js";
/** Values under which an index lists a document: one, several, or undefined to omit the document. */
export type IndexedValue = string | readonly string[] | undefined;

/**
 * Rows that a document has together with those documents of another table that an index of it lists under the
 * document's key. `rowsOf` must depend only on these documents; the keys of all rows of a table must differ.
 */
export interface RowDefinition<Doc, Row> {
  readonly table: string;
  readonly index: string;
  // biome-ignore lint/suspicious/noExplicitAny: the type of the other table's documents is known to the definition only
  readonly rowsOf: (doc: Doc, others: Iterable<any>) => Iterable<readonly [key: string, row: Row]>;
}

/** A table: how to derive a document's key and its index values. */
export interface Table<Doc, Index extends string = string, Row = unknown> {
  readonly key: (doc: Doc) => string;
  readonly indexes: { readonly [Name in Index]: (doc: Doc) => IndexedValue };
  /** Rows derived from each document and others; kept in memory, never stored. */
  readonly rows?: RowDefinition<Doc, Row> | undefined;
  /** Returns the problem of a document; undefined when it is valid. When omitted, every object is valid. */
  readonly check?: ((document: object) => string | undefined) | undefined;
  /** Lists of fields by which people query the documents in a database. Each list becomes a database index. */
  readonly queries?: readonly (readonly string[])[] | undefined;
  /**
   * Version of the documents' shape; 1 by default. It must increase when older programs must not use the documents of
   * this version. Stored documents of lower versions are upgraded with `upgrade` before anything is served; higher
   * versions are refused.
   */
  readonly version?: number | undefined;
  readonly upgrade?: ((document: object, version: number) => object) | undefined;
  /**
   * Returns the document to restore from a backup; by default unchanged. A counter adds `counterStep`, which exceeds
   * the number of values that it can have issued since the backup.
   */
  readonly onRestore?: ((doc: Doc, counterStep: number) => Doc) | undefined;
}

/** The tables of a tablet by name. */
// biome-ignore lint/suspicious/noExplicitAny: a Table is neither co- nor contravariant in Doc; only any admits every table
export type Schema = Record<string, Table<any>>;

type DocumentOf<T> = T extends Table<infer Doc> ? Doc : never;
type IndexOf<T> = T extends { readonly indexes: infer Indexes } ? keyof Indexes & string : never;
// biome-ignore lint/suspicious/noExplicitAny: only any admits every document
type RowOf<T> = T extends { readonly rows?: RowDefinition<any, infer Row> | undefined } ? Row : never;

/**
 * Declares a table: `table<Doc>()({ key, indexes })`. Two calls, so that TypeScript infers the index names. `key` and
 * `indexes` must depend only on the document.
 */
export function table<Doc extends object>() {
  return <Index extends string = never>({
    indexes = {} as Table<Doc, Index>["indexes"],
    ...definition
  }: Omit<Table<Doc, Index>, "indexes"> & Partial<Pick<Table<Doc, Index>, "indexes">>): Table<Doc, Index> => ({
    ...definition,
    indexes,
  });
}

/** Selects a page of keys. */
export interface PageOptions {
  /** Only keys above this one are returned; a document with this key need not exist. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/**
 * Read access to a table. Documents are frozen, in ascending order of key (as JavaScript compares strings).
 *
 * Iterating while the same transaction changes the table is safe: no document is visited twice, a document deleted
 * before its turn is skipped, and a replaced document is returned in its current version.
 */
export interface ReadableTable<Doc, Index extends string = string, Row = unknown> {
  readonly size: number;
  get(key: string): Doc | undefined;
  has(key: string): boolean;
  entries(options?: PageOptions): Iterable<Doc>;
  /** Returns the documents with that index value. */
  by(index: Index, value: string, options?: PageOptions): Iterable<Doc>;
  count(index: Index, value: string): number;
  /** Returns the document with the highest key, of all or of those with that index value. */
  last(...of: [] | [index: Index, value: string]): Doc | undefined;
  /** Returns the table's rows with keys above `after` and below `before`, in ascending order of key. */
  rows(after: string, before: string): Iterable<Row>;
}

export interface WritableTable<Doc, Index extends string = string, Row = unknown>
  extends ReadableTable<Doc, Index, Row> {
  /** Inserts or replaces a document, and freezes it. */
  put(doc: Doc): void;
  /** Deletes a document; returns false when there was none. */
  delete(key: string): boolean;
}

export type Tables<S extends Schema> = {
  readonly [K in keyof S]: ReadableTable<DocumentOf<S[K]>, IndexOf<S[K]>, RowOf<S[K]>>;
};
export type Transaction<S extends Schema> = {
  readonly [K in keyof S]: WritableTable<DocumentOf<S[K]>, IndexOf<S[K]>, RowOf<S[K]>>;
};

/** A document as changed so far by a transaction; undefined means that it does not exist. */
interface ChangedDocument {
  readonly tableName: string;
  readonly previous: object | undefined;
  readonly current: object | undefined;
}

/**
 * Runs at the end of each transaction with changes. `note` is the argument of `transact`. Returns the cause of the
 * changes in words, for their history; undefined for none.
 */
export type Conclude<S extends Schema> = (
  tx: Transaction<S>,
  changed: readonly ChangedDocument[],
  note: unknown,
) => string | undefined;

/** Final result of a transaction for one key. */
export interface Change {
  readonly table: string;
  readonly key: string;
  /** null means deleted. */
  readonly document: object | null;
}

/** A change with the data that a storage needs to update the checksum sums. */
export interface StoredChange extends Change {
  /** Version of the table's shape. */
  readonly version: number;
  /** Document that the change replaces, as stored; null for none. */
  readonly previous: Versioned | null;
  /** Cause of the change in words; see Conclude. */
  readonly cause?: string | undefined;
}

/** A document with its place. */
export interface StoredDocument extends Versioned {
  readonly table: string;
  readonly key: string;
}
