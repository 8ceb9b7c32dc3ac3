import { randomUUID } from "node:crypto";
import { visibleInJson } from "@diskmesh/domain";
import type { RowKind, Rows } from "@diskmesh/page/rows";

/** Maximum rows of an answer, which is built at once. */
const MAX_ROWS = 2_000;
/** Maximum remembered rows that are gone. Beyond it, every browser gets all rows again. */
const MAX_GONE = 10_000;

interface CachedRow {
  /** JSON of the row; undefined for a row that is gone. */
  readonly text: string | undefined;
  readonly revision: number;
}

/** The page's rows as JSON. A row gets a higher revision with each change. */
export class RowCache {
  /** Rows by "KIND NAME", in the order of their revisions. */
  readonly #rows = new Map<string, CachedRow>();
  #revision = 0;
  #gone = 0;
  /** Tells the revisions of this cache from those of other directors. */
  #id = randomUUID();

  set<Kind extends RowKind>(kind: Kind, name: string, row: Rows[Kind] | undefined): void {
    const key = `${kind} ${name}`;
    const text = row && JSON.stringify(row);
    const before = this.#rows.get(key);
    if (before?.text === text) return;
    this.#rows.delete(key);
    this.#rows.set(key, { text, revision: ++this.#revision });
    if (before !== undefined && before.text === undefined) this.#gone--;
    if (text === undefined && ++this.#gone > MAX_GONE) this.#forgetGone();
  }

  /** Replaces all rows of a kind. */
  setAll<Kind extends RowKind>(kind: Kind, rows: ReadonlyMap<string, Rows[Kind]>): void {
    for (const [name, row] of rows) this.set(kind, name, row);
    const prefix = `${kind} `;
    for (const key of [...this.#rows.keys()]) {
      const name = key.slice(prefix.length);
      if (key.startsWith(prefix) && !rows.has(name)) this.set(kind, name, undefined);
    }
  }

  /** Returns all present rows, parsed. */
  *rows(): Generator<readonly [kind: RowKind, name: string, row: Rows[RowKind]]> {
    for (const [key, { text }] of this.#rows) {
      if (text === undefined) continue;
      const [kind, name] = partsOf(key);
      yield [kind as RowKind, name, JSON.parse(text) as Rows[RowKind]];
    }
  }

  /**
   * Returns the JSON of an OverviewAnswer: the rows that changed after `since`, a former answer's value. Another value
   * gets all rows.
   */
  changedSince(since: string): string {
    const [id, revision] = since.split(" ");
    const isWhole = id !== this.#id;
    let last = isWhole ? 0 : Number(revision);
    const changes: string[] = [];
    let hasMore = false;
    if (last !== this.#revision)
      for (const [key, row] of this.#rows) {
        if (!(row.revision > last)) continue;
        hasMore = changes.length === MAX_ROWS;
        if (hasMore) break;
        const [kind, name] = partsOf(key);
        changes.push(`[${JSON.stringify(kind)},${JSON.stringify(name)},${row.text ?? "null"}]`);
        last = row.revision;
      }
    const next = JSON.stringify(`${this.#id} ${last}`);
    return visibleInJson(`{"since":${next},"isWhole":${isWhole},"hasMore":${hasMore},"rows":[${changes.join(",")}]}`);
  }

  #forgetGone(): void {
    for (const [key, { text }] of this.#rows) if (text === undefined) this.#rows.delete(key);
    this.#gone = 0;
    this.#id = randomUUID();
  }
}

function partsOf(key: string): readonly [kind: string, name: string] {
  const space = key.indexOf(" ");
  return [key.slice(0, space), key.slice(space + 1)];
}
