/** What of a file somebody holds. */
export interface ByteRange {
  readonly startBytes: number;
  readonly endBytes: number;
}

/** Which bytes of one file are held, by whom. What is held never overlaps. */
export class HeldBytes<Holder> {
  /** In the order of their bytes. */
  readonly #held: (ByteRange & { readonly holder: Holder })[] = [];

  /** Takes the bytes, unless somebody has some of them: who that is. */
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
