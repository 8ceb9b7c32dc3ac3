import type { Clock } from "@diskmesh/service";

/** Maximum time in ms until a waiting write notices a changed rate. */
const MAX_SLEEP_MS = 1_000;

/** Spreads writes over time, so that they keep to a rate, which may change. */
export class Pace {
  readonly #clock: Pick<Clock, "monotonicMs" | "sleep">;
  #bytesPerSecond: number;
  /** Bytes before those that may begin now, as of `#atMs`. */
  #allowedBytes = 0;
  #atMs = 0;
  /** Bytes of all writes so far, which may still wait. */
  #takenBytes = 0;

  /** `bytesPerSecond`: 0 for no limit. */
  constructor(clock: Pick<Clock, "monotonicMs" | "sleep">, bytesPerSecond: number) {
    this.#clock = clock;
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Changes the rate, also for the writes that wait. */
  set(bytesPerSecond: number): void {
    this.#advance();
    this.#bytesPerSecond = bytesPerSecond;
  }

  /** Resolves once a write of this size may begin. Rejects with the signal's reason when it aborts meanwhile. */
  async wait(sizeBytes: number, signal: AbortSignal): Promise<void> {
    this.#advance();
    const startBytes = Math.max(this.#takenBytes, this.#allowedBytes);
    this.#takenBytes = startBytes + sizeBytes;
    for (let leftMs = this.#untilMs(startBytes); leftMs > 0; leftMs = this.#untilMs(startBytes))
      await this.#clock.sleep(Math.min(Math.ceil(leftMs), MAX_SLEEP_MS), signal);
  }

  /** Returns the time in ms until the write that begins with this byte may begin. */
  #untilMs(startBytes: number): number {
    this.#advance();
    const leftBytes = startBytes - this.#allowedBytes;
    return this.#bytesPerSecond === 0 ? 0 : (leftBytes * 1_000) / this.#bytesPerSecond;
  }

  #advance(): void {
    const nowMs = this.#clock.monotonicMs();
    this.#allowedBytes += ((nowMs - this.#atMs) * this.#bytesPerSecond) / 1_000;
    this.#atMs = nowMs;
    if (this.#bytesPerSecond === 0) this.#allowedBytes = this.#takenBytes;
  }
}
