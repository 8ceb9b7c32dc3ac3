import type { Clock } from "@diskmesh/domain";

/** Reason of an abort, because abort() without one creates an error with a stack each time. */
const FOUND = "there is nothing more to wait for";

/** Records that something changed until `changed` returns, so that a change between two checks is not missed. */
export class Watch implements Disposable {
  #dirty = false;
  #wake: (() => void) | undefined;

  constructor(private readonly forget: () => void = () => {}) {}

  touch(): void {
    this.#dirty = true;
    this.#wake?.();
  }

  /**
   * Resolves when something has changed since the last call, at once if it already has; rejects when the signal aborts.
   */
  async changed(signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#dirty) {
      await new Promise<void>((resolve) => {
        const wake = (): void => {
          signal?.removeEventListener("abort", wake);
          resolve();
        };
        this.#wake = wake;
        signal?.addEventListener("abort", wake, { once: true });
      });
      this.#wake = undefined;
      signal?.throwIfAborted();
    }
    this.#dirty = false;
  }

  [Symbol.dispose](): void {
    this.forget();
  }
}

/** Notifies waiters and watches of a key that they should check its state again. */
export class Changes<Key> {
  readonly #watches = new Map<Key, Set<Watch>>();

  /** Watches all changes of the key from now on. */
  watch(key: Key): Watch {
    const watches = this.#watches.get(key) ?? new Set();
    this.#watches.set(key, watches);
    const watch = new Watch(() => {
      watches.delete(watch);
      if (watches.size === 0 && this.#watches.get(key) === watches) this.#watches.delete(key);
    });
    watches.add(watch);
    return watch;
  }

  /** Signals a change of the key. */
  touch(key: Key): void {
    for (const watch of this.#watches.get(key) ?? []) watch.touch();
  }

  /**
   * Calls `find` now and after each change until it returns a value. Returns undefined after the timeout; rejects with
   * the signal's reason when it aborts, and with `find`'s error.
   */
  async until<Found>(
    key: Key,
    find: () => Found | undefined | Promise<Found | undefined>,
    options: { readonly timeoutMs: number; readonly clock: Clock; readonly signal?: AbortSignal },
  ): Promise<Found | undefined> {
    const { timeoutMs, clock, signal } = options;
    // The watch begins before the first check; otherwise a change in between would be missed.
    using watch = this.watch(key);
    // Mostly the first check succeeds, so no timer is started for it.
    const there = await find();
    if (there !== undefined) return there;
    let isOver = false;
    const timer = new AbortController();
    const timeIsUp = (): void => {
      isOver = true;
      watch.touch();
    };
    clock.sleep(timeoutMs, timer.signal).then(timeIsUp, () => {});
    try {
      for (;;) {
        await watch.changed(signal);
        const found = await find();
        if (found !== undefined || isOver) return found;
      }
    } finally {
      timer.abort(FOUND);
    }
  }
}
