import type { Schema } from "./documents/schema.js";
import type { Tablet } from "./tablet.js";

/** Returns the keys of the tally to which a document contributes, with the amounts. */
type Worth<Doc> = (document: Doc) => Iterable<readonly [key: string, amount: number]>;

/**
 * Derives data from a table. `follow` calls `changed` for each existing document, with `before` null, and for each
 * durable change.
 */
export interface Follows<Doc> {
  changed(key: string, now: Doc | null, before: Doc | null): void;
}

/** Sums over a table, updated with each change so that reading them is cheap. */
export class Tally<Doc> implements Follows<Doc> {
  readonly #sums = new Map<string, number>();

  constructor(private readonly worth: Worth<Doc>) {}

  get(key: string): number {
    return this.#sums.get(key) ?? 0;
  }

  changed(_key: string, now: Doc | null, before: Doc | null): void {
    if (before !== null) this.#add(before, -1);
    if (now !== null) this.#add(now, 1);
  }

  #add(document: Doc, sign: 1 | -1): void {
    for (const [key, amount] of this.worth(document)) {
      const sum = this.get(key) + sign * amount;
      if (sum === 0) this.#sums.delete(key);
      else this.#sums.set(key, sum);
    }
  }
}

/** Documents of a table that are waiting, with the start times of their waits. */
export class Waits<Doc> implements Follows<Doc> {
  readonly #sinceMs = new Map<string, number>();

  /** `sinceMs` returns undefined for a document that does not wait. */
  constructor(private readonly sinceMs: (document: Doc) => number | undefined) {}

  get size(): number {
    return this.#sinceMs.size;
  }

  /** Returns the longest waiting time; 0 when no document waits. */
  oldestMs(nowMs: number): number {
    let oldest = nowMs;
    for (const sinceMs of this.#sinceMs.values()) if (sinceMs < oldest) oldest = sinceMs;
    return nowMs - oldest;
  }

  changed(key: string, now: Doc | null): void {
    const sinceMs = now === null ? undefined : this.sinceMs(now);
    if (sinceMs === undefined) this.#sinceMs.delete(key);
    else this.#sinceMs.set(key, sinceMs);
  }
}

/**
 * Keeps followers up to date with their tables; returns a function that stops this. Must be called before the tablet's
 * first transaction, because the changes of a commit under way would count twice.
 */
export async function follow<S extends Schema>(
  tablet: Pick<Tablet<S>, "read" | "watch">,
  schema: S,
  // biome-ignore lint/suspicious/noExplicitAny: each of them knows the documents of its own table
  followers: { readonly [Table in keyof S]?: readonly Follows<any>[] },
): Promise<() => void> {
  const end = tablet.watch((changes) => {
    for (const { table, key, document, previous } of changes)
      for (const each of followers[table] ?? []) each.changed(key, document, previous?.document ?? null);
  });
  await tablet.read((tables) => {
    for (const [table, those] of Object.entries(followers))
      for (const document of tables[table]?.entries() ?? [])
        for (const each of those ?? []) each.changed(schema[table]?.key(document) ?? "", document, null);
  });
  return end;
}
