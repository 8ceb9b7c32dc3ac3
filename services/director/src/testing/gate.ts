/** Stops whoever passes it until it is released. */
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

  pass(): Promise<void> {
    this.#reach();
    return this.#released;
  }

  release(): void {
    this.#release();
  }
}
