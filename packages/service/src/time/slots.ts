/** A concurrency limit whose callers may give up while they wait; slots are given in the order of asking. */
export class Slots {
  #held = 0;
  readonly #waiting = new Set<() => void>();

  constructor(private readonly limit: number) {}

  /** Callers that hold a slot or wait for one. */
  get inUse(): number {
    return this.#held + this.#waiting.size;
  }

  /** Callers that wait for a slot. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Does the work in a slot. Rejects with the signal's reason when that aborts before a slot is free. */
  async run<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const release = await this.acquire(signal);
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Returns the function that gives the slot back. Rejects with the signal's reason when that aborts before. */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#held < this.limit) this.#held++;
    else await this.#wait(signal);
    let isHeld = true;
    return () => {
      if (isHeld) this.#pass();
      isHeld = false;
    };
  }

  #wait(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const leave = (): void => {
        this.#waiting.delete(start);
        reject(signal?.reason);
      };
      const start = (): void => {
        this.#waiting.delete(start);
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.add(start);
    });
  }

  /** Hands the slot to the next caller, so that nobody who asks now takes it. */
  #pass(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#held--;
    else next();
  }
}

/** Returns the slots of each key, as many for each. Keys must be few: they are kept. */
export function slotsOfEach(limit: number): (key: string) => Slots {
  const all = new Map<string, Slots>();
  return (key) => {
    const slots = all.get(key) ?? new Slots(limit);
    all.set(key, slots);
    return slots;
  };
}
