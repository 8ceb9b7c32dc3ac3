import { ask, UnauthorizedError } from "./ask.js";
import type { OverviewAnswer, RowKind, Rows, SourceRow } from "./rows.js";

type Tables = { readonly [Kind in RowKind]: Map<string, Rows[Kind]> };

/** Interval of requests for what has changed. */
const ASK_INTERVAL_MS = 1_000;
/** Time after which a request is given up. A browser does not notice that a director hangs or that its machine is gone. */
const ANSWER_TIMEOUT_MS = 10_000;

const emptyTables = (): Tables => ({
  source: new Map(),
  host: new Map(),
  device: new Map(),
  disk: new Map(),
  label: new Map(),
  vm: new Map(),
  task: new Map(),
  lock: new Map(),
  cpi: new Map(),
  orphan: new Map(),
  pool: new Map(),
});

/** All data of the page, updated by the director's answers. */
export class Store {
  tables = emptyTables();
  /** Increases with each change, so that components know when to render. */
  version = 0;
  /** Time of the director's last answer; 0 for never. */
  heardAtMs = 0;
  isLive = false;
  readonly #listeners = new Set<() => void>();
  /** The last answer that the rows are of; empty to ask for all rows. */
  #since = "";
  /** All rows of a director until the last of them has arrived; undefined when changes are shown as they arrive. */
  #next: Tables | undefined;
  /** True once all rows have arrived for the first time. */
  isComplete = false;
  #isTelling = false;

  /** Asks the director for what has changed, for as long as the page is open. */
  async open(): Promise<never> {
    for (;;) {
      const hasMore = await this.#ask();
      if (!hasMore) await new Promise((resolve) => setTimeout(resolve, ASK_INTERVAL_MS));
    }
  }

  /** Calls back at most once a frame; returns a function that stops this. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Returns whether rows that the director gets from this service may be missing, because they are being read. */
  isReading(service: "director" | "disk-registry" | "cpi-dispatcher"): boolean {
    const states = [...this.tables.source].filter(([name]) => name.startsWith(service)).map(([, { state }]) => state);
    return !this.isComplete || states.includes("reading") || (states.length === 0 && service !== "disk-registry");
  }

  /** Returns whether there is more to ask for at once. */
  async #ask(): Promise<boolean> {
    try {
      const path = `/page/overview?${new URLSearchParams({ since: this.#since })}`;
      const answer = await ask<OverviewAnswer>(path, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) });
      this.#take(answer);
      return answer.hasMore;
    } catch (error) {
      // The session has ended, so the page reloads with its login form.
      if (error instanceof UnauthorizedError) location.reload();
      // All rows are asked for again, because the director's own row is replaced below.
      this.#since = "";
      this.#setLive(false);
      await this.#askWhy();
      return false;
    }
  }

  #take({ since, isWhole, hasMore, rows }: OverviewAnswer): void {
    if (isWhole) this.#next = emptyTables();
    for (const [kind, name, row] of rows) {
      const table = (this.#next ?? this.tables)[kind] as Map<string, Rows[RowKind]>;
      if (row === null) table.delete(name);
      else table.set(name, row);
    }
    this.#since = since;
    this.heardAtMs = Date.now();
    this.#setLive(true);
    if (!hasMore && this.#next !== undefined) {
      this.tables = this.#next;
      this.#next = undefined;
      this.isComplete = true;
    }
    if (isWhole || rows.length > 0) this.#changed();
  }

  /** Shows the director's description of its own state until it answers again. */
  async #askWhy(): Promise<void> {
    const trouble = "nobody answers at this address: see that a director runs there";
    const timeout = { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS) };
    const row = await ask<SourceRow>("/page/self", timeout).catch((): SourceRow => ({ state: "silent", trouble }));
    if (row.trouble === undefined) return;
    this.tables.source.set("director", row);
    this.#changed();
  }

  #setLive(isLive: boolean): void {
    if (this.isLive === isLive) return;
    this.isLive = isLive;
    this.#changed();
  }

  #changed(): void {
    this.version++;
    if (this.#isTelling) return;
    this.#isTelling = true;
    requestAnimationFrame(() => {
      this.#isTelling = false;
      for (const listener of this.#listeners) listener();
    });
  }
}

export const store = new Store();
