/** Pages by their numbers, from 0 on, one bit for each that could be in it. */
export class PageSet {
  readonly #bits: Uint8Array;

  constructor(pages: number) {
    this.#bits = new Uint8Array(Math.ceil(pages / 8));
  }

  has(page: number): boolean {
    return ((this.#bits[page >>> 3] as number) & (1 << (page & 7))) !== 0;
  }

  add(page: number): void {
    this.#bits[page >>> 3] = (this.#bits[page >>> 3] as number) | (1 << (page & 7));
  }
}
