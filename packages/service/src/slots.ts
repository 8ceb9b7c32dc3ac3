/** A bounded amount of something, given out in order of asking. */
export class Slots {
  readonly #limit: number;
  #used = 0;
  readonly #waiting: { amount: number; start: () => void }[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** How many wait for theirs. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Resolves once the amount is free; more than there is counts as all of it. Returns the function that gives it back.
   * Rejects with the signal's reason when that aborts before.
   */
  async acquire(amount = 1, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    const taken = Math.min(amount, this.#limit);
    if (this.#waiting.length > 0 || this.#used + taken > this.#limit) await this.#wait(taken, signal);
    else this.#used += taken;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#used -= taken;
      this.#startWaiting();
    };
  }

  #wait(amount: number, signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        signal?.removeEventListener("abort", leave);
        resolve();
      };
      const place = { amount, start };
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(place), 1);
        // Less may be waited for now than there is.
        this.#startWaiting();
        reject(signal?.reason);
      };
      signal?.addEventListener("abort", leave, { once: true });
      this.#waiting.push(place);
    });
  }

  #startWaiting(): void {
    for (let next = this.#waiting[0]; next && this.#used + next.amount <= this.#limit; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.amount;
      next.start();
    }
  }
}
