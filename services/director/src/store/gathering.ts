/** Lets things gather for a while, so that they are written together, unless somebody waits for them. */
export class Gathering {
  #isHurried = false;
  #end: () => void = () => {};

  constructor(private readonly timeMs: number) {}

  /** Resolves when the time is over, or at once when somebody waits for what has come since the last one. */
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

  /** Somebody waits for what is there: only while something is. */
  hurry(): void {
    this.#isHurried = true;
    this.#end();
  }
}
