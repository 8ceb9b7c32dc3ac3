/** Value under which an index finds a document: one, several, or undefined when the document is not in the index. */
export type IndexedValue = string | readonly string[] | undefined;

/** One typed map of documents: the key of a document, and the values by which it can be looked up. */
export interface Table<Doc, Index extends string = string> {
  readonly key: (doc: Doc) => string;
  readonly indexes: { readonly [Name in Index]: (doc: Doc) => IndexedValue };
  /** Returns the problem of a document, or undefined. When absent, any object is valid. */
  readonly check?: ((document: object) => string | undefined) | undefined;
  /** Fields by which people query the documents in a database, one list per query; each becomes an index there. */
  readonly queries?: readonly (readonly string[])[] | undefined;
  /**
   * Version of the documents' shape, 1 when absent. It must rise whenever older programs must not use the documents
   * that this one writes. Stored documents of lower versions pass through `upgrade` before anything is served; those of
   * higher versions are refused.
   */
  readonly version?: number | undefined;
  readonly upgrade?: ((document: object, version: number) => object) | undefined;
  /**
   * Returns a document as it must be restored from a backup; absent when it is restored unchanged. A counter adds
   * `counterStep`, which exceeds the number of values it can have issued since the backup.
   */
  readonly onRestore?: ((doc: Doc, counterStep: number) => Doc) | undefined;
}

/** The tables of a tablet by name. */
// biome-ignore lint/suspicious/noExplicitAny: a Table is neither co- nor contravariant in Doc; only any admits every table
export type Schema = Record<string, Table<any>>;

type DocumentOf<T> = T extends Table<infer Doc> ? Doc : never;
type IndexOf<T> = T extends { readonly indexes: infer Indexes } ? keyof Indexes & string : never;

/**
 * Declares a table: `table<Doc>()({ key, indexes })`, in two steps so that the names of the indexes become part of its
 * type. `key` and the indexes must depend only on the document.
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

/** Start and length of a page. */
export interface PageOptions {
  /** Only keys above this one are returned; the key itself need not exist. */
  readonly after?: string | undefined;
  readonly limit?: number | undefined;
}

/** Documents in ascending order of key (as JavaScript compares strings). */
export interface TableSnapshot<Doc> {
  entries(options?: PageOptions): Iterable<Doc>;
}

/**
 * A table as readers see it. Documents are frozen and come in ascending order of key (as JavaScript compares strings).
 *
 * Iterating while the same transaction changes the table is safe: no document is visited twice, a document deleted
 * before its turn is skipped, and a replaced one is returned in its current version.
 */
export interface ReadableTable<Doc, Index extends string = string> extends TableSnapshot<Doc> {
  readonly size: number;
  get(key: string): Doc | undefined;
  has(key: string): boolean;
  /** Returns the present documents, or those whose index has that value, unaffected by later changes; cheap. */
  snapshot(...of: [] | [index: Index, value: string]): TableSnapshot<Doc>;
  /** Returns the documents whose index has that value. */
  by(index: Index, value: string, options?: PageOptions): Iterable<Doc>;
  count(index: Index, value: string): number;
  /** Returns the document with the highest key, of all or of those whose index has that value. */
  last(...of: [] | [index: Index, value: string]): Doc | undefined;
}

export interface WritableTable<Doc, Index extends string = string> extends ReadableTable<Doc, Index> {
  /** Inserts the document, or replaces the one with its key. Freezes it. */
  put(doc: Doc): void;
  /** Returns true when the document existed. */
  delete(key: string): boolean;
}

export type Tables<S extends Schema> = { readonly [K in keyof S]: ReadableTable<DocumentOf<S[K]>, IndexOf<S[K]>> };
export type Transaction<S extends Schema> = {
  readonly [K in keyof S]: WritableTable<DocumentOf<S[K]>, IndexOf<S[K]>>;
};

/** A document as a transaction has changed it so far; undefined means that there is none. */
interface ChangedDocument {
  readonly tableName: string;
  readonly previous: object | undefined;
  readonly current: object | undefined;
}

/** Runs as the last part of each transaction that changed something. `note` is the argument of `transact`. */
export type Conclude<S extends Schema> = (
  tx: Transaction<S>,
  changed: readonly ChangedDocument[],
  note: unknown,
) => void;

/** Final change of a transaction to one key. */
export interface Change {
  readonly table: string;
  readonly key: string;
  /** null means deleted. */
  readonly document: object | null;
}
