/** Pseudo-random numbers, determined by the seed alone. */
export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  constructor(seed: number) {
    this.#a = 0x9e3779b9;
    this.#b = 0x243f6a88;
    this.#c = seed >>> 0;
    this.#d = Math.floor(seed / 2 ** 32) ^ 0xb7e15162;
    for (let i = 0; i < 12; i++) this.next();
  }

  /** Returns a number in [0, 1). */
  next(): number {
    const t = (this.#a + this.#b + this.#d++) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + t;
    return (t >>> 0) / 2 ** 32;
  }

  chance(probability: number): boolean {
    return probability > 0 && this.next() < probability;
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.next();
  }

  /** Returns a whole number from 0 to below `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(items: readonly T[]): T {
    if (items.length === 0) throw new Error("nothing to pick from");
    return items[this.below(items.length)] as T;
  }

  /** Returns a delay that is mostly short, and with `longChance` longer than most other events. */
  delayMs(typicalMs: number, longMs: number, longChance: number): number {
    return this.chance(longChance) ? this.between(typicalMs, longMs) : this.between(0.1, typicalMs);
  }

  /** Returns another source, which does not depend on later draws from this one. */
  fork(): Random {
    return new Random(this.below(2 ** 31));
  }
}
