import { type OrderedMap, orderedMap } from "./key-set.js";

/**
 * Rows derived from the documents of a table, in ascending order of their keys. A document's rows are derived anew at
 * the end of a transaction that affects them, or earlier when the transaction reads rows.
 */
export class DerivedRows<Row> {
  readonly #rows: OrderedMap<Row> = orderedMap<Row>();
  readonly #keysOf = new Map<string, readonly string[]>();
  readonly #outdated = new Set<string>();
  #version = 0;

  /** `derive` returns the rows of a document by its key, none for one that does not exist. */
  constructor(private readonly derive: (documentKey: string) => Iterable<readonly [key: string, row: Row]>) {}

  markOutdated(documentKey: string): void {
    this.#outdated.add(documentKey);
  }

  update(): void {
    if (this.#outdated.size === 0) return;
    this.#version++;
    // All former rows go first, because one document's row may have the key that another's had.
    for (const documentKey of this.#outdated)
      for (const key of this.#keysOf.get(documentKey) ?? []) this.#rows.delete(key);
    for (const documentKey of this.#outdated) {
      const rows = [...this.derive(documentKey)];
      for (const [key, row] of rows) this.#rows.set(key, row);
      const keys = rows.map(([key]) => key);
      if (keys.length > 0) this.#keysOf.set(documentKey, keys);
      else this.#keysOf.delete(documentKey);
    }
    this.#outdated.clear();
  }

  /** Returns the rows with keys above `after` and below `before`. */
  *between(after: string, before: string): Generator<Row> {
    let last = after;
    for (;;) {
      this.update();
      const version = this.#version;
      for (const [key, row] of this.#rows.entries(last, [])) {
        if (key >= before) return;
        if (key === last) continue;
        last = key;
        yield row;
        // The tree has changed, so its iterator is no longer valid.
        if (this.#version !== version) break;
      }
      if (this.#version === version) return;
    }
  }
}
