import { type Clock, Slots } from "@diskmesh/service";

export interface EraseLimits {
  /** Maximum devices erased at once. */
  readonly maxAtOnce: number;
  /** Maximum bytes written by all erases together. */
  readonly maxBytesPerSecond: number;
  /** A write that takes longer than this frees its place for another device. */
  readonly slowAfterMs: number;
}

/** Runs one write of an erase once the limits allow it. */
export type LimitedWrite = (sizeBytes: number, write: () => Promise<void>) => Promise<void>;

/** Limits erases in favour of a host's users: devices at once, and bytes per second together. */
export class EraseRate {
  readonly #turns: Slots;
  #nextWriteAtMs = 0;
  readonly #stopping = new AbortController();

  constructor(
    private readonly limits: EraseLimits,
    private readonly clock: Clock,
  ) {
    this.#turns = new Slots(limits.maxAtOnce);
  }

  /** Runs the erase of one device. Its first write waits for a place, which is freed when the erase ends. */
  async limit(erase: (write: LimitedWrite) => Promise<void>): Promise<void> {
    const { signal } = this.#stopping;
    let turn: (() => void) | undefined;
    const endTurn = (): void => {
      turn?.();
      turn = undefined;
    };
    const limited: LimitedWrite = async (sizeBytes, write) => {
      turn ??= await this.#turns.acquire(signal);
      await this.#pace(sizeBytes, signal);
      signal.throwIfAborted();
      const over = new AbortController();
      // A hung drive frees its place and blocks no other; the rest of its erase waits for another place.
      this.clock.sleep(this.limits.slowAfterMs, over.signal).then(endTurn, () => {});
      try {
        await write();
      } finally {
        over.abort();
      }
    };
    try {
      await erase(limited);
    } finally {
      endTurn();
    }
  }

  /** Makes erases fail before their next write. */
  stop(): void {
    this.#stopping.abort(new Error("the agent is stopping"));
  }

  async #pace(sizeBytes: number, signal: AbortSignal): Promise<void> {
    const nowMs = this.clock.monotonicMs();
    const startAtMs = Math.max(nowMs, this.#nextWriteAtMs);
    this.#nextWriteAtMs = startAtMs + (sizeBytes * 1_000) / this.limits.maxBytesPerSecond;
    if (startAtMs > nowMs) await this.clock.sleep(startAtMs - nowMs, signal);
  }
}
