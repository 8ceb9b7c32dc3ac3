/** Holds each caller of `pass` until `release` is called. */
export class Gate {
  readonly reached: Promise<void>;
  readonly #released: Promise<void>;
  #reach: () => void = () => {};
  #release: () => void = () => {};

  constructor() {
    this.reached = new Promise((resolve) => {
      this.#reach = resolve;
    });
    this.#released = new Promise((resolve) => {
      this.#release = resolve;
    });
  }

  /** Resolves after `release`. Rejects with the signal's reason when the signal aborts first. */
  async pass(signal = new AbortController().signal): Promise<void> {
    this.#reach();
    signal.throwIfAborted();
    await Promise.race([
      this.#released,
      new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
    ]);
  }

  release(): void {
    this.#release();
  }
}
