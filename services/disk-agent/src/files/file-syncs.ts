interface Synced {
  datasync(): Promise<void>;
}

/**
 * Runs the syncs of one open file one after another. The kernel reports lost writes only to the first sync after the
 * loss; a concurrent second sync would succeed. Calls that arrive during a sync share the next one, which covers their
 * writes because it starts later.
 */
export class FileSyncs {
  readonly #onFailure: () => void;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;

  /** `onFailure` is called before any later sync resolves. */
  constructor(onFailure: () => void) {
    this.#onFailure = onFailure;
  }

  sync(handle: Synced): Promise<void> {
    this.#next ??= this.#syncAfter(this.#running, handle);
    return this.#next;
  }

  async #syncAfter(before: Promise<void> | undefined, handle: Synced): Promise<void> {
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
