/** A byte range of a file. */
export interface ByteRange {
  readonly startBytes: number;
  readonly endBytes: number;
}

/** The held byte ranges of one file, by their holders. Held ranges never overlap. */
export class HeldBytes<Holder> {
  readonly #held = new Map<Holder, ByteRange>();

  /** Reserves the range. Returns the holder of an overlapping range instead, if there is one. */
  take(holder: Holder, range: ByteRange): Holder | undefined {
    for (const [other, held] of this.#held)
      if (held.startBytes < range.endBytes && range.startBytes < held.endBytes) return other;
    this.#held.set(holder, range);
    return undefined;
  }

  release(holder: Holder): void {
    this.#held.delete(holder);
  }

  get isEmpty(): boolean {
    return this.#held.size === 0;
  }
}
