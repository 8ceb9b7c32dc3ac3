import { type Clock, sleep } from "../clock.js";

interface Timer {
  readonly atMs: number;
  readonly action: () => void;
}

/** A clock for tests that advances only on request. */
export class ManualClock implements Clock {
  #elapsedMs = 0;
  readonly #timers = new Set<Timer>();

  constructor(private readonly startMs = 0) {}

  nowMs(): number {
    return this.startMs + this.#elapsedMs;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  after(delayMs: number, action: () => void): () => void {
    const timer = { atMs: this.#elapsedMs + delayMs, action };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  afterTurn(action: () => void): void {
    // A tick queued from a microtask runs after all microtasks.
    queueMicrotask(() => process.nextTick(action));
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleep(this, ms, signal);
  }

  /** Number of pending sleeps and callbacks. */
  get sleepers(): number {
    return this.#timers.size;
  }

  /**
   * Advances the time and fires the due timers in order. Between two timers, and before it returns, lets woken code run
   * to its next wait.
   */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#elapsedMs + ms;
    for (;;) {
      // A macrotask lets all woken code run to its next wait.
      await new Promise((resolve) => setImmediate(resolve));
      const [next] = [...this.#timers].sort((a, b) => a.atMs - b.atMs);
      if (!next || next.atMs > untilMs) break;
      this.#elapsedMs = Math.max(this.#elapsedMs, next.atMs);
      this.#timers.delete(next);
      next.action();
    }
    this.#elapsedMs = untilMs;
  }

  /**
   * Advances in steps of one millisecond, so that replies that take several turns of the event loop arrive between the
   * steps.
   */
  async passTo(atMs: number): Promise<void> {
    while (this.#elapsedMs < atMs) await this.advance(1);
  }

  /** Advances until the condition holds. */
  async passUntil(happened: () => boolean, withinMs: number): Promise<void> {
    const untilMs = this.#elapsedMs + withinMs;
    while (!happened()) {
      if (this.#elapsedMs >= untilMs) throw new Error(`it did not happen within ${withinMs} ms`);
      await this.advance(1);
    }
  }
}
