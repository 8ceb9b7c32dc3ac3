/**
 * Lets so many begin in one turn of the event loop, and the others in the turns after, in order. Thousands of calls that
 * arrive at once would otherwise all be worked on before anything else is heard: heartbeats, the store's answers, timers.
 */
export class Turns {
  readonly #max: number;
  #begun = 0;
  readonly #waiting: (() => void)[] = [];

  constructor(
    maxPerTurn: number,
    /** Calls back in the next turn. */
    private readonly afterTurn: (callback: () => void) => void,
  ) {
    this.#max = maxPerTurn;
  }

  /** Resolves when it is the caller's turn. */
  async next(): Promise<void> {
    if (this.#begun === 0) this.afterTurn(() => this.#begin());
    if (this.#begun < this.#max) {
      this.#begun++;
      return;
    }
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #begin(): void {
    const begun = this.#waiting.splice(0, this.#max);
    this.#begun = begun.length;
    for (const begin of begun) begin();
    if (begun.length > 0) this.afterTurn(() => this.#begin());
  }
}
