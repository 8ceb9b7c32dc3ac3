import type { OpenHandle } from "./open-file.js";

/**
 * The syncs of one open file, one after another. Of writes that were lost the kernel tells the first who syncs, and him
 * alone: whoever synced at the same time would take them for stored. Those who come meanwhile share the next sync, which
 * begins after they came and so covers what was written before.
 */
export class FileSyncs {
  readonly #onFailure: () => void;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** `onFailure` is called before anybody hears of a later sync. */
  constructor(onFailure: () => void) {
    this.#onFailure = onFailure;
  }

  sync(handle: OpenHandle): Promise<void> {
    this.#next ??= this.#syncAfter(this.#running, handle);
    return this.#next;
  }

  async #syncAfter(before: Promise<void> | undefined, handle: OpenHandle): Promise<void> {
    await before?.catch(() => undefined);
    this.#running = this.#next;
    this.#next = undefined;
    try {
      await handle.datasync();
    } catch (error) {
      this.#onFailure();
      throw error;
    }
  }
}
