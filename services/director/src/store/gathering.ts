/** Delays a batch write so that more items can join the batch, unless a caller waits for the pending items. */
export class Gathering {
  #isHurried = false;
  #end: () => void = () => {};

  constructor(private readonly timeMs: number) {}

  /** Resolves after the gathering time, or at once when hurry() was called since the last batch. */
  async whole(): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    if (!this.#isHurried)
      await new Promise<void>((resolve) => {
        this.#end = resolve;
        timer = setTimeout(resolve, this.timeMs);
      });
    clearTimeout(timer);
    this.#isHurried = false;
  }

  /**
   * Ends the current or next gathering at once because a caller waits for the pending items. Call only while items are
   * pending.
   */
  hurry(): void {
    this.#isHurried = true;
    this.#end();
  }
}
