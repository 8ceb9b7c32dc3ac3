import type { Clock } from "@diskmesh/domain";

/** Why a timer aborts; without one, abort() makes an error with its stack each time. */
const FOUND = "there is nothing more to wait for";

/** Remembers that something changed until somebody has waited for it: no change between two looks is missed. */
export class Watch implements Disposable {
  #dirty = false;
  #wake: (() => void) | undefined;

  constructor(private readonly forget: () => void = () => {}) {}

  touch(): void {
    this.#dirty = true;
    this.#wake?.();
  }

  /** Resolves when something has changed since the last time, at once if it has already; rejects when the signal aborts. */
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

/** Tells those who wait for one thing, or follow it, to look at it again. */
export class Changes<Key> {
  readonly #watches = new Map<Key, Set<Watch>>();

  /** Hears of every change of it from now on. */
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

  /** It is not as it was. */
  touch(key: Key): void {
    for (const watch of this.#watches.get(key) ?? []) watch.touch();
  }

  /**
   * Looks now, and again after each change, until there is something to find. Undefined when the time is up first; rejects
   * with the signal's reason when that aborts, and with what `find` throws.
   */
  async until<Found>(
    key: Key,
    find: () => Found | undefined | Promise<Found | undefined>,
    options: { readonly timeoutMs: number; readonly clock: Clock; readonly signal?: AbortSignal },
  ): Promise<Found | undefined> {
    const { timeoutMs, clock, signal } = options;
    // Listening before looking: a change in between would be missed the other way round.
    using watch = this.watch(key);
    // Mostly it is there, and no timer is made.
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
