import { visibleInJson } from "@diskmesh/domain";
import type { RowKind, Rows } from "@diskmesh/page/rows";

/** A subscriber to row changes. It holds at most one entry per row, however slowly it reads. */
export interface Viewer {
  /** Keys "KIND NAME" of the rows changed since they were last sent. */
  readonly changed: Set<string>;
  /** Called when `changed` has entries. */
  wake(): void;
}

/** The page's rows as JSON. Notifies viewers of changed rows. */
export class RowCache {
  readonly #rows = new Map<string, string>();
  readonly #viewers = new Set<Viewer>();

  set<Kind extends RowKind>(kind: Kind, name: string, row: Rows[Kind] | undefined): void {
    const key = `${kind} ${name}`;
    const text = row && JSON.stringify(row);
    if (this.#rows.get(key) === text) return;
    if (text === undefined) this.#rows.delete(key);
    else this.#rows.set(key, text);
    for (const viewer of this.#viewers) {
      viewer.changed.add(key);
      viewer.wake();
    }
  }

  /** Replaces all rows of a kind. */
  setAll<Kind extends RowKind>(kind: Kind, rows: ReadonlyMap<string, Rows[Kind]>): void {
    for (const [name, row] of rows) this.set(kind, name, row);
    this.keepOnly(kind, (name) => rows.has(name));
  }

  keepOnly(kind: RowKind, isKept: (name: string) => boolean): void {
    const prefix = `${kind} `;
    for (const key of this.#rows.keys()) {
      const name = key.slice(prefix.length);
      if (key.startsWith(prefix) && !isKept(name)) this.set(kind, name, undefined);
    }
  }

  clear(): void {
    this.#rows.clear();
  }

  /** Subscribes the viewer to changes, beginning with all present rows. Returns the unsubscribe function. */
  add(viewer: Viewer): () => void {
    for (const key of this.#rows.keys()) viewer.changed.add(key);
    this.#viewers.add(viewer);
    return () => this.#viewers.delete(viewer);
  }

  /** Returns all present rows, parsed. */
  *rows(): Generator<readonly [kind: RowKind, name: string, row: Rows[RowKind]]> {
    for (const [key, text] of this.#rows) {
      const space = key.indexOf(" ");
      yield [key.slice(0, space) as RowKind, key.slice(space + 1), JSON.parse(text) as Rows[RowKind]];
    }
  }

  /** Returns the present rows with these keys as JSON of RowChange[]. */
  textOf(keys: readonly string[]): string {
    return visibleInJson(`[${keys.map((key) => this.#change(key)).join(",")}]`);
  }

  #change(key: string): string {
    const space = key.indexOf(" ");
    const [kind, name] = [key.slice(0, space), key.slice(space + 1)];
    return `[${JSON.stringify(kind)},${JSON.stringify(name)},${this.#rows.get(key) ?? "null"}]`;
  }
}
