import type { TabletClock } from "../clock.js";

/** A clock that a test moves. Timers run when they are due, in order. */
export class ManualClock implements TabletClock {
  #now = 0;
  readonly #timers = new Set<{ readonly atMs: number; readonly action: () => void }>();

  monotonicMs(): number {
    return this.#now;
  }

  after(delayMs: number, action: () => void): () => void {
    const timer = { atMs: this.#now + delayMs, action };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  afterTurn(action: () => void): void {
    // A tick that is queued among microtasks comes after all of them.
    queueMicrotask(() => process.nextTick(action));
  }

  async passTo(atMs: number): Promise<void> {
    for (; this.#now < atMs; this.#now++) {
      for (const timer of [...this.#timers].filter((each) => each.atMs <= this.#now)) {
        if (this.#timers.delete(timer)) timer.action();
      }
      await turn();
    }
  }

  /** Passes as much time as it takes. */
  async passUntil(happened: () => boolean, withinMs: number): Promise<void> {
    const untilMs = this.#now + withinMs;
    while (!happened()) {
      if (this.#now >= untilMs) throw new Error(`it did not happen within ${withinMs} ms`);
      await this.passTo(this.#now + 1);
    }
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
