/** Times in which nobody of a kind does anything: what they do comes before, or after. */
export class Truce {
  #isOn = false;
  #acting = 0;
  #waiting: (() => void)[] = [];

  /** Acts once there is no truce. */
  async act<T>(fn: () => Promise<T>): Promise<T> {
    await this.#until(() => !this.#isOn);
    this.#acting++;
    try {
      return await fn();
    } finally {
      this.#acting--;
      this.#changed();
    }
  }

  /** Runs `fn` when all that was begun has ended, and lets nothing begin meanwhile. One at a time. */
  async hold<T>(fn: () => Promise<T>): Promise<T> {
    await this.#until(() => !this.#isOn);
    this.#isOn = true;
    try {
      await this.#until(() => this.#acting === 0);
      return await fn();
    } finally {
      this.#isOn = false;
      this.#changed();
    }
  }

  async #until(condition: () => boolean): Promise<void> {
    while (!condition()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  #changed(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}
