/** Separates two kinds of activities: during a truce no action of the other kind runs. */
export class Truce {
  #isOn = false;
  #acting = 0;
  #waiting: (() => void)[] = [];

  /** Runs `fn` when no truce is held. */
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

  /** Runs `fn` after all running actions have ended, and starts no new action meanwhile. Truces run one at a time. */
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
