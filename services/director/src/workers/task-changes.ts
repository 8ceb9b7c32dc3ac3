/** Hears of every change of one task from the moment it was made. */
export interface TaskWatch extends Disposable {
  /** Resolves when something has changed since the last time, at once if it has already; rejects when the signal aborts. */
  changed(signal: AbortSignal): Promise<void>;
}

/** Tells those who wait for a task, or follow its events, to look again. */
export class TaskChanges {
  readonly #watches = new Map<number, Set<Watch>>();

  watch(taskId: number): TaskWatch {
    const watch = new Watch(() => {
      const watches = this.#watches.get(taskId);
      watches?.delete(watch);
      if (watches?.size === 0) this.#watches.delete(taskId);
    });
    const watches = this.#watches.get(taskId);
    if (watches === undefined) this.#watches.set(taskId, new Set([watch]));
    else watches.add(watch);
    return watch;
  }

  /** The task, or its events, are not as they were. */
  touch(taskId: number): void {
    for (const watch of this.#watches.get(taskId) ?? []) watch.touch();
  }
}

class Watch implements TaskWatch {
  #dirty = false;
  #wake: (() => void) | undefined;

  constructor(private readonly forget: () => void) {}

  touch(): void {
    this.#dirty = true;
    this.#wake?.();
  }

  async changed(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (!this.#dirty) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
        signal.addEventListener("abort", this.#wake, { once: true });
      });
      if (this.#wake) signal.removeEventListener("abort", this.#wake);
      this.#wake = undefined;
    }
    signal.throwIfAborted();
    this.#dirty = false;
  }

  [Symbol.dispose](): void {
    this.forget();
  }
}
