import { ask, UnauthorizedError } from "./ask.js";
import type { RowChange, RowKind, Rows, SourceRow } from "./rows.js";

type Tables = { readonly [Kind in RowKind]: Map<string, Rows[Kind]> };

/**
 * Time without events after which the page says that it may be out of date, and opens the stream again. A heartbeat
 * event comes every 5 s. A browser does not notice that a director hangs or that its machine is gone.
 */
const STALE_MS = 12_000;
/**
 * Interval of checks of the stream. It is opened again when it is stale, and after a response that is no event stream;
 * after other failures the browser reconnects by itself.
 */
const LOOK_MS = 2_000;

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

/** All data of the page, updated by the director's events. */
export class Store {
  tables = emptyTables();
  /** Increases with each change, so that components know when to render. */
  version = 0;
  /** Time of the director's last event; 0 for never. */
  heardAtMs = 0;
  isLive = false;
  readonly #listeners = new Set<() => void>();
  /**
   * Rows of a new connection, shown when the initial rows are complete; undefined when changes are shown as they
   * arrive.
   */
  #next: Tables | undefined;
  /** True once all initial rows of the first connection have arrived. */
  isComplete = false;
  #isTelling = false;

  open(): void {
    let source = this.#connect();
    let openedAtMs = Date.now();
    setInterval(() => {
      const isStale = Date.now() - Math.max(this.heardAtMs, openedAtMs) >= STALE_MS;
      if (isStale) this.#setLive(false);
      if (!isStale && source.readyState !== EventSource.CLOSED) return;
      source.close();
      source = this.#connect();
      openedAtMs = Date.now();
    }, LOOK_MS);
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

  #connect(): EventSource {
    const source = new EventSource("/page/feed");
    source.addEventListener("begin", () => {
      this.#next = this.isComplete ? emptyTables() : undefined;
      if (!this.isComplete) this.tables = emptyTables();
      this.#heard();
    });
    source.addEventListener("rows", ({ data }) => {
      for (const [kind, name, row] of JSON.parse(data) as RowChange[]) {
        const table = (this.#next ?? this.tables)[kind] as Map<string, Rows[RowKind]> | undefined;
        if (row === null) table?.delete(name);
        else table?.set(name, row);
      }
      this.#heard();
      this.#changed();
    });
    source.addEventListener("complete", () => {
      this.isComplete = true;
      if (this.#next !== undefined) this.tables = this.#next;
      this.#next = undefined;
      this.#heard();
      this.#changed();
    });
    source.addEventListener("beat", () => this.#heard());
    source.addEventListener("error", () => {
      this.#setLive(false);
      void this.#askWhy();
    });
    return source;
  }

  /** Shows the director's description of its own state until events return. */
  async #askWhy(): Promise<void> {
    const nobody = {
      state: "silent",
      trouble: "nobody answers at this address: see that a director runs there",
    } as const;
    const row = await ask<SourceRow>("/page/self").catch((error: unknown): SourceRow => {
      // The session has ended, so the page reloads with its login form.
      if (error instanceof UnauthorizedError) location.reload();
      return nobody;
    });
    if (this.isLive || row.trouble === undefined) return;
    this.tables.source.set("director", row);
    this.#changed();
  }

  #heard(): void {
    this.heardAtMs = Date.now();
    this.#setLive(true);
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
