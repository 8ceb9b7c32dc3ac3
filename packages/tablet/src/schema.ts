/** What an index finds a document under: one value or several, or undefined when it is not in that index. */
export type IndexedValue = string | readonly string[] | undefined;

/** One typed map of documents: how a document is keyed, and by which of its values it can be looked up. */
export interface Table<Doc, Index extends string = string> {
  readonly key: (doc: Doc) => string;
  readonly indexes: { readonly [Name in Index]: (doc: Doc) => IndexedValue };
  /** Says what is wrong with a document of this table, or undefined. Absent: any object will do. */
  readonly check?: ((document: object) => string | undefined) | undefined;
  /** Fields by which people query the documents in a database, one list a query: each becomes an index there. */
  readonly queries?: readonly (readonly string[])[] | undefined;
  /**
   * The version of the documents' shape, 1 when absent; it goes up whenever older programs must not use what this one
   * writes. Stored documents of lower versions are brought up by `upgrade` before anything serves, those of higher ones
   * are refused.
   */
  readonly version?: number | undefined;
  readonly upgrade?: ((document: object, version: number) => object) | undefined;
  /**
   * What a document becomes when it is restored from a backup; absent: it is restored as it was. A counter goes up by
   * `counterStep`, which is more than it can have given out since the backup.
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
 * type. `key` and the indexes must depend on nothing but the document.
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

/** Where a page starts and how long it may be. */
export interface PageOptions {
  /** Only keys above this one. It need not exist (any more). */
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
 * Iterating while the same transaction changes the table is safe: a document is never visited twice, one that was
 * deleted before its turn is skipped, and one that was replaced before its turn comes as it is now.
 */
export interface ReadableTable<Doc, Index extends string = string> extends TableSnapshot<Doc> {
  readonly size: number;
  get(key: string): Doc | undefined;
  has(key: string): boolean;
  /** The documents of this moment, or those whose index has that value, whatever changes afterwards; it costs little. */
  snapshot(...of: [] | [index: Index, value: string]): TableSnapshot<Doc>;
  /** The documents whose index has that value. */
  by(index: Index, value: string, options?: PageOptions): Iterable<Doc>;
  count(index: Index, value: string): number;
  /** The document with the highest key, or the one of those whose index has that value. */
  last(...of: [] | [index: Index, value: string]): Doc | undefined;
}

export interface WritableTable<Doc, Index extends string = string> extends ReadableTable<Doc, Index> {
  /** Inserts the document, or replaces the one with its key. It is frozen: never change it afterwards. */
  put(doc: Doc): void;
  /** Returns whether there was one. */
  delete(key: string): boolean;
}

export type Tables<S extends Schema> = { readonly [K in keyof S]: ReadableTable<DocumentOf<S[K]>, IndexOf<S[K]>> };
export type Transaction<S extends Schema> = {
  readonly [K in keyof S]: WritableTable<DocumentOf<S[K]>, IndexOf<S[K]>>;
};

/** What a transaction has made of a document so far; undefined where there is none. */
interface ChangedDocument {
  readonly tableName: string;
  readonly previous: object | undefined;
  readonly current: object | undefined;
}

/** Runs at the end of a transaction that changed something, as its last part; `note` is what `transact` was given. */
export type Conclude<S extends Schema> = (
  tx: Transaction<S>,
  changed: readonly ChangedDocument[],
  note: unknown,
) => void;

/** The last word of a transaction on one key. */
export interface Change {
  readonly table: string;
  readonly key: string;
  /** null: deleted */
  readonly document: object | null;
}
