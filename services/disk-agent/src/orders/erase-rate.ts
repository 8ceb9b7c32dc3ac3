import { type Clock, Slots } from "@diskmesh/service";
import { Pace } from "../base/pace.js";

export interface EraseLimits {
  /** Maximum devices erased at once. */
  readonly maxAtOnce: number;
  /** Maximum bytes written by all erases together. */
  readonly maxBytesPerSecond: number;
  /** Duration in ms after which a write no longer occupies its slot, so that another device can be erased. */
  readonly slowAfterMs: number;
}

/** Share of the rate that remains for an erase beside disks that are in use on its drive. */
const YIELDING_SHARE = 1 / 10;

/** Runs a write of an erase as soon as the limits allow it. */
export type LimitedWrite = (sizeBytes: number, write: () => Promise<void>) => Promise<void>;

/**
 * Limits the number of devices that are erased at once and the bytes written per second, so that erases leave bandwidth
 * for other I/O.
 */
export class EraseRate {
  readonly #turns: Slots;
  readonly #pace: Pace;
  readonly #stopping = new AbortController();
  #maxBytesPerSecond: number;

  constructor(
    private readonly limits: EraseLimits,
    private readonly clock: Clock,
  ) {
    this.#maxBytesPerSecond = limits.maxBytesPerSecond;
    this.#turns = new Slots(limits.maxAtOnce);
    this.#pace = new Pace(clock, limits.maxBytesPerSecond);
  }

  /**
   * Runs the erase of one device. Its first write waits for a slot, which is freed when the erase ends. While `yields` is
   * true, the erase keeps to a tenth of the rate, and others get its slot between its writes.
   */
  async limit(erase: (write: LimitedWrite) => Promise<void>, yields: () => boolean): Promise<void> {
    const { signal } = this.#stopping;
    const own = new Pace(this.clock, this.#yieldingRate);
    let turn: (() => void) | undefined;
    const endTurn = (): void => {
      turn?.();
      turn = undefined;
    };
    const limited: LimitedWrite = async (sizeBytes, write) => {
      if (yields()) {
        endTurn();
        own.set(this.#yieldingRate);
        await own.wait(sizeBytes, signal);
      }
      turn ??= await this.#turns.acquire(signal);
      await this.#pace.wait(sizeBytes, signal);
      signal.throwIfAborted();
      const over = new AbortController();
      // A hung write frees its slot, so that it blocks no other device. The rest of the erase waits for a new slot.
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

  /** Changes the bytes per second of all erases together. */
  set(maxBytesPerSecond: number): void {
    this.#maxBytesPerSecond = maxBytesPerSecond;
    this.#pace.set(maxBytesPerSecond);
  }

  get #yieldingRate(): number {
    return Math.ceil(this.#maxBytesPerSecond * YIELDING_SHARE);
  }

  /** Makes all erases fail before their next write. */
  stop(): void {
    this.#stopping.abort(new Error("the agent is stopping"));
  }
}
