import { type Clock, Slots } from "@diskmesh/service";

export interface EraseLimits {
  /** Devices erased at once. */
  readonly maxAtOnce: number;
  /** Written by all of them together. */
  readonly maxBytesPerSecond: number;
  /** A write that takes longer leaves its turn to another device. */
  readonly slowAfterMs: number;
}

/** Does one write of an erase, when its turn has come and its bytes may be written. */
export type LimitedWrite = (sizeBytes: number, write: () => Promise<void>) => Promise<void>;

/** What erases may take from a host's users: so many devices in turn, and so many bytes a second together. */
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

  /** Runs the erase of one device. Its first write waits for a turn, which ends with the erase. */
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
      // A drive that hangs holds up no other: the rest of its erase waits for another turn.
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
