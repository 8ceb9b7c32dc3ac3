interface HeldRange {
  readonly startBytes: number;
  readonly endBytes: number;
  readonly ended: Promise<void>;
  readonly end: () => void;
}

/** Lets one write of a range of bytes run at a time, in the order in which they came. */
export class RangeLocks {
  readonly #held = new Set<HeldRange>();
  #isOpen = false;

  /** Lets all writes run at once from now on. */
  open(): void {
    this.#isOpen = true;
    for (const { end } of this.#held) end();
  }

  /** Resolves once all earlier writes of bytes of the range have ended. Returns the function that ends this one. */
  async take(startBytes: number, sizeBytes: number): Promise<() => void> {
    const endBytes = startBytes + sizeBytes;
    const before: Promise<void>[] = [];
    for (const other of this.#isOpen ? [] : this.#held)
      if (other.startBytes < endBytes && startBytes < other.endBytes) before.push(other.ended);
    let end: () => void = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const range = { startBytes, endBytes, ended, end };
    this.#held.add(range);
    if (before.length > 0) await Promise.all(before);
    return () => {
      this.#held.delete(range);
      end();
    };
  }
}
