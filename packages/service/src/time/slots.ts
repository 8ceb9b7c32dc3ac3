/** A concurrency limit whose callers may abort while they wait. Slots are given in order of the calls. */
export class Slots {
  #held = 0;
  readonly #waiting = new Set<() => void>();

  constructor(private readonly limit: number) {}

  /** Number of callers that hold a slot or wait for one. */
  get inUse(): number {
    return this.#held + this.#waiting.size;
  }

  /** Number of callers that wait for a slot. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Runs the work in a slot. Rejects with the signal's reason when it aborts before a slot is free. */
  async run<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    const release = await this.acquire(signal);
    try {
      return await work();
    } finally {
      release();
    }
  }

  /** Returns the function that releases the slot. Rejects with the signal's reason when it aborts before. */
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

  /** Passes the slot to the next waiting caller directly, so that no new caller can take it. */
  #pass(): void {
    const [next] = this.#waiting;
    if (next === undefined) this.#held--;
    else next();
  }
}

/** Returns a separate limit for each key. Keys are never removed, so there must be few. */
export function slotsOfEach(limit: number): (key: string) => Slots {
  const all = new Map<string, Slots>();
  return (key) => {
    const slots = all.get(key) ?? new Slots(limit);
    all.set(key, slots);
    return slots;
  };
}
