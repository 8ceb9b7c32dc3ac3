import type { Clock } from "@diskmesh/service";

/** Spreads writes over time, so that they keep to a rate, which may change. */
export class Pace {
  readonly #clock: Pick<Clock, "monotonicMs" | "sleep">;
  #bytesPerSecond: number;
  #nextAtMs = 0;

  /** `bytesPerSecond`: 0 for no limit. */
  constructor(clock: Pick<Clock, "monotonicMs" | "sleep">, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Changes the rate for the writes that have not waited yet. */
  set(bytesPerSecond: number): void {
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Resolves once a write of this size may begin. Rejects with the signal's reason when it aborts meanwhile. */
  async wait(sizeBytes: number, signal: AbortSignal): Promise<void> {
    const nowMs = this.#clock.monotonicMs();
    const startAtMs = Math.max(nowMs, this.#nextAtMs);
    const durationMs = this.#bytesPerSecond === 0 ? 0 : (sizeBytes * 1_000) / this.#bytesPerSecond;
    this.#nextAtMs = startAtMs + durationMs;
    if (startAtMs > nowMs) await this.#clock.sleep(startAtMs - nowMs, signal);
  }
}
