/** A byte range of a file. */
export interface ByteRange {
  readonly startBytes: number;
  readonly endBytes: number;
}

/** Tracks the held byte ranges of one file and their holders. Held ranges never overlap. */
export class HeldBytes<Holder> {
  /** Held ranges, sorted by offset. */
  readonly #held: (ByteRange & { readonly holder: Holder })[] = [];

  /** Reserves the range. Returns the holder of an overlapping range instead, if there is one. */
  take(holder: Holder, range: ByteRange): Holder | undefined {
    const at = this.#firstThatEndsAfter(range.startBytes);
    const next = this.#held[at];
    if (next !== undefined && next.startBytes < range.endBytes) return next.holder;
    this.#held.splice(at, 0, { holder, ...range });
    return undefined;
  }

  release(holder: Holder, { startBytes }: ByteRange): void {
    const at = this.#firstThatEndsAfter(startBytes);
    if (this.#held[at]?.holder === holder) this.#held.splice(at, 1);
  }

  get isEmpty(): boolean {
    return this.#held.length === 0;
  }

  #firstThatEndsAfter(bytes: number): number {
    let [low, high] = [0, this.#held.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((this.#held[middle]?.endBytes ?? 0) > bytes) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
