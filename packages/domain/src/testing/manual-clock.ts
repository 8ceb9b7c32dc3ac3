import { type Clock, sleep } from "../clock.js";

interface Timer {
  readonly atMs: number;
  readonly action: () => void;
}

/** A clock that stands still until it is told to advance, for tests. */
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
    // A tick that is queued among microtasks comes after all of them.
    queueMicrotask(() => process.nextTick(action));
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleep(this, ms, signal);
  }

  /** How many sleep now, or wait to be called back. */
  get sleepers(): number {
    return this.#timers.size;
  }

  /** Lets time pass, waking sleepers in the order of their times; what they start runs between the steps. */
  async advance(ms: number): Promise<void> {
    const untilMs = this.#elapsedMs + ms;
    for (;;) {
      // Setting a macrotask apart lets everything that was woken run to its next wait.
      await new Promise((resolve) => setImmediate(resolve));
      const [next] = [...this.#timers].sort((a, b) => a.atMs - b.atMs);
      if (!next || next.atMs > untilMs) break;
      this.#elapsedMs = Math.max(this.#elapsedMs, next.atMs);
      this.#timers.delete(next);
      next.action();
    }
    this.#elapsedMs = untilMs;
  }

  /** Advances by milliseconds, so that answers that take several turns of the event loop come in between. */
  async passTo(atMs: number): Promise<void> {
    while (this.#elapsedMs < atMs) await this.advance(1);
  }

  /** Passes as much time as it takes. */
  async passUntil(happened: () => boolean, withinMs: number): Promise<void> {
    const untilMs = this.#elapsedMs + withinMs;
    while (!happened()) {
      if (this.#elapsedMs >= untilMs) throw new Error(`it did not happen within ${withinMs} ms`);
      await this.advance(1);
    }
  }
}
