/** A bounded amount of something, given out in order of asking. */
export class Slots {
  readonly #limit: number;
  #used = 0;
  readonly #waiting: { amount: number; start: () => void }[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** Resolves once the amount is free; more than there is counts as all of it. Returns the function that gives it back. */
  async acquire(amount = 1): Promise<() => void> {
    const taken = Math.min(amount, this.#limit);
    if (this.#waiting.length > 0 || this.#used + taken > this.#limit)
      await new Promise<void>((start) => this.#waiting.push({ amount: taken, start }));
    else this.#used += taken;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#used -= taken;
      this.#startWaiting();
    };
  }

  #startWaiting(): void {
    for (let next = this.#waiting[0]; next && this.#used + next.amount <= this.#limit; next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#used += next.amount;
      next.start();
    }
  }
}
