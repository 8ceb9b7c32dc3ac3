/**
 * Detects a task that has been at the same step for too long. Time in which the machine kept the task from running does
 * not count.
 */
export class Standstill {
  #step = Number.NaN;
  #netMs = 0;
  #seenAtMs = 0;
  #keptMs = 0;

  constructor(private readonly limitMs: number) {}

  /** Returns whether the step stands still. `keptMs` is the total time in ms without a processor. */
  look(step: number, nowMs: number, keptMs: number): boolean {
    const tookMs = nowMs - this.#seenAtMs;
    // `keptMs` starts again at 0 when its cause has ended.
    const keptOfItMs = Math.min(tookMs, Math.max(0, keptMs - this.#keptMs));
    this.#netMs = step === this.#step ? this.#netMs + tookMs - keptOfItMs : 0;
    this.#step = step;
    this.#seenAtMs = nowMs;
    this.#keptMs = keptMs;
    return this.#netMs > this.limitMs;
  }
}
