import type { Clock } from "@diskmesh/service";

/** Lets shells wait until something that they can check has become true. */
export class Condition {
  readonly #waiters = new Set<() => void>();

  /** Says that something changed: everyone who waits looks again. */
  notify(): void {
    const waiters = [...this.#waiters];
    this.#waiters.clear();
    for (const wake of waiters) wake();
  }

  /** The first result of `check` that is not undefined; undefined when the time is up first. What `check` throws is thrown. */
  async until<T>(check: () => T | undefined, timeoutMs: number, clock: Clock): Promise<T | undefined> {
    const first = check();
    if (first !== undefined) return first;
    const over = new AbortController();
    let timedOut = false;
    const timeout = clock.sleep(timeoutMs, over.signal).then(
      () => {
        timedOut = true;
        this.notify();
      },
      () => undefined,
    );
    try {
      for (;;) {
        await new Promise<void>((resolve) => this.#waiters.add(resolve));
        const result = check();
        if (result !== undefined || timedOut) return result;
      }
    } finally {
      over.abort();
      await timeout;
    }
  }
}
