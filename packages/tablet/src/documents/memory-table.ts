import { DerivedRows } from "./derived-rows.js";
import {
  type KeySet,
  keysAfter,
  lastKey,
  type OrderedMap,
  orderedMap,
  orderedMapOf,
  sizeOfKeySet,
  withKey,
  withoutKey,
} from "./key-set.js";
import type { IndexedValue, PageOptions, ReadableTable, RowDefinition, Table } from "./schema.js";

interface Index<Doc> {
  readonly name: string;
  readonly indexedValue: (doc: Doc) => IndexedValue;
  readonly keysOf: Map<string, KeySet>;
  /** Rows of other tables that depend on the documents of each value. */
  readonly dependents: DerivedRows<unknown>[];
}

/**
 * Length of the first page of documents that an iteration reads. Pages double up to the maximum, so that short and long
 * iterations are cheap.
 */
const FIRST_PAGE_LENGTH = 32;
const LARGEST_PAGE_LENGTH = 512;
/**
 * Page length once the table has changed during an iteration. Short, because the table is likely to change again at the
 * next step, and each change makes the iteration read a new page.
 */
const PAGE_LENGTH_AFTER_CHANGE = 2;

/** One table in memory: documents in order of key, and their indexes. */
export class MemoryTable<Doc extends object> implements ReadableTable<Doc> {
  readonly #name: string;
  readonly #keyOf: (doc: Doc) => string;
  readonly #indexes: Index<Doc>[] = [];
  #documents: OrderedMap<Doc> = orderedMap<Doc>();
  /** Documents of an unfinished load. */
  #loading: Doc[] = [];
  #version = 0;
  #rows: DerivedRows<unknown> | undefined;

  constructor(name: string, definition: Table<Doc>) {
    this.#name = name;
    this.#keyOf = definition.key;
    for (const [index, indexedValue] of Object.entries(definition.indexes)) {
      this.#indexes.push({ name: index, indexedValue, keysOf: new Map(), dependents: [] });
    }
  }

  get size(): number {
    return this.#documents.size;
  }

  get(key: string): Doc | undefined {
    return this.#documents.get(key);
  }

  has(key: string): boolean {
    return this.#documents.has(key);
  }

  entries(options?: PageOptions): Iterable<Doc> {
    return this.#walk((after, limit) => documentsAfter(this.#documents, after, limit), options);
  }

  by(index: string, value: string, options?: PageOptions): Iterable<Doc> {
    const { keysOf } = this.#index(index);
    return this.#walk(
      (after, limit) => keysAfter(keysOf.get(value), after, limit).map((key) => this.#documents.get(key) as Doc),
      options,
    );
  }

  count(index: string, value: string): number {
    return sizeOfKeySet(this.#index(index).keysOf.get(value));
  }

  last(...of: [] | [index: string, value: string]): Doc | undefined {
    const [index, value] = of;
    const key = index === undefined ? this.#documents.maxKey() : lastKey(this.#index(index).keysOf.get(value ?? ""));
    return key === undefined ? undefined : this.#documents.get(key);
  }

  /** Returns a cheap snapshot of the documents by key, which later changes do not affect. */
  documents(): OrderedMap<Doc> {
    return this.#documents.clone();
  }

  rows(after: string, before: string): Iterable<unknown> {
    if (this.#rows === undefined) throw new TypeError(`table ${this.#name} has no rows`);
    return this.#rows.between(after, before);
  }

  /** Derives rows from this table's documents and those that the index of `others` lists under their keys. */
  deriveRows({ index, rowsOf }: RowDefinition<Doc, unknown>, others: MemoryTable<object>): void {
    this.#rows = new DerivedRows((key) => {
      const document = this.get(key);
      return document === undefined ? [] : rowsOf(document, others.by(index, key));
    });
    others.#index(index).dependents.push(this.#rows);
  }

  updateRows(): void {
    this.#rows?.update();
  }

  /**
   * Adds a document during the load, in any order, each key once. Between the first call and `endLoad` the table must
   * not be read or changed. `endLoad` builds the tree in a fraction of the time of single inserts.
   */
  load(key: string, document: Doc): void {
    this.#loading.push(document);
    for (const index of this.#indexes) {
      for (const value of valuesOf(this.#indexValue(index, document))) addToIndex(index, value, key);
    }
  }

  endLoad(): void {
    if (this.#loading.length === 0) return;
    if (this.#documents.size > 0) throw new TypeError(`table ${this.#name} is loaded, and holds documents already`);
    this.#documents = orderedMapOf(this.#loading, this.#keyOf);
    this.#loading = [];
    this.#version++;
    if (this.#rows !== undefined) for (const key of this.#documents.keys()) this.#rows.markOutdated(key);
  }

  /** Sets a key's document, or removes it (undefined); returns the former document. */
  replace(key: string, next: Doc | undefined): Doc | undefined {
    const previous = this.#documents.get(key);
    // Index functions may throw, so all of them run before any change.
    const nextValues = next === undefined ? undefined : this.#indexes.map((index) => this.#indexValue(index, next));
    if (next === undefined) this.#documents.delete(key);
    else this.#documents.set(key, next);
    this.#version++;
    this.#rows?.markOutdated(key);
    for (const [i, index] of this.#indexes.entries()) {
      const previousValue = previous === undefined ? undefined : index.indexedValue(previous);
      const nextValue = nextValues?.[i];
      for (const rows of index.dependents)
        for (const value of [...valuesOf(previousValue), ...valuesOf(nextValue)]) rows.markOutdated(value);
      if (previousValue === nextValue) continue;
      for (const value of valuesOf(previousValue)) removeFromIndex(index, value, key);
      for (const value of valuesOf(nextValue)) addToIndex(index, value, key);
    }
    return previous;
  }

  #index(name: string): Index<Doc> {
    const index = this.#indexes.find((each) => each.name === name);
    if (index === undefined) throw new TypeError(`table ${this.#name} has no index ${name}`);
    return index;
  }

  #indexValue(index: Index<Doc>, doc: Doc): IndexedValue {
    const value = index.indexedValue(doc);
    if (value === undefined || typeof value === "string") return value;
    if (Array.isArray(value) && value.every((each) => typeof each === "string")) return value;
    throw new TypeError(`table ${this.#name}: index ${index.name} gave a ${typeof value} instead of a string`);
  }

  *#walk(pageAfter: (after: string | undefined, limit: number) => Doc[], options: PageOptions = {}): Generator<Doc> {
    let after = options.after;
    let left = options.limit ?? Number.POSITIVE_INFINITY;
    let pageLength = FIRST_PAGE_LENGTH;
    while (left > 0) {
      const version = this.#version;
      const page = pageAfter(after, Math.min(pageLength, left));
      for (const document of page) {
        after = this.#keyOf(document);
        left--;
        yield document;
        // The table changed, so the rest of the page may be outdated and is read again.
        if (this.#version !== version) break;
      }
      if (this.#version !== version) pageLength = PAGE_LENGTH_AFTER_CHANGE;
      else if (page.length < pageLength) return;
      else pageLength = Math.min(pageLength * 2, LARGEST_PAGE_LENGTH);
    }
  }
}

function valuesOf(indexed: IndexedValue): readonly string[] {
  if (indexed === undefined) return [];
  return Array.isArray(indexed) ? indexed : [indexed as string];
}

function documentsAfter<Doc>(documents: OrderedMap<Doc>, after: string | undefined, limit: number): Doc[] {
  const page: Doc[] = [];
  for (const [key, document] of documents.entries(after, [])) {
    if (page.length >= limit) break;
    if (key !== after) page.push(document as Doc);
  }
  return page;
}

function addToIndex<Doc>({ keysOf }: Index<Doc>, value: string, key: string): void {
  const before = keysOf.get(value);
  const after = withKey(before, key);
  if (after !== before) keysOf.set(value, after);
}

function removeFromIndex<Doc>(index: Index<Doc>, value: string, key: string): void {
  const rest = withoutKey(index.keysOf.get(value), key);
  if (rest === undefined) index.keysOf.delete(value);
  else index.keysOf.set(value, rest);
}
