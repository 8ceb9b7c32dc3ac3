/**
 * Tells when something has been at the same step for too long. Time in which it was kept from running is no fault of its
 * own: on a machine that does much else that may be nearly all of it.
 */
export class Standstill {
  #step = Number.NaN;
  #netMs = 0;
  #seenAtMs = 0;
  #keptMs = 0;

  constructor(private readonly limitMs: number) {}

  /** At which step it is now, and for how long it was kept from running since it began. */
  look(step: number, nowMs: number, keptMs: number): boolean {
    const tookMs = nowMs - this.#seenAtMs;
    // `keptMs` counts from 0 again once its cause has ended.
    const keptOfItMs = Math.min(tookMs, Math.max(0, keptMs - this.#keptMs));
    this.#netMs = step === this.#step ? this.#netMs + tookMs - keptOfItMs : 0;
    this.#step = step;
    this.#seenAtMs = nowMs;
    this.#keptMs = keptMs;
    return this.#netMs > this.limitMs;
  }
}
