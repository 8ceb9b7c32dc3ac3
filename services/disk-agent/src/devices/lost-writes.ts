interface Unsynced {
  inFlight: number;
  /** Count of the device's writes when the session's last one ended. */
  endedAt: number;
}

/** Remembers for a device the sessions whose acknowledged writes the operating system may have lost. */
export class LostWrites {
  readonly #lost = new Set<number>();
  /** Sessions with writes that no good sync has covered. */
  readonly #unsynced = new Map<number, Unsynced>();
  #writes = 0;

  /** Notes that a write of the session begins. Returns the function to call when it has ended. */
  noteWrite(sessionNumber: number): () => void {
    const unsynced = this.#unsynced.get(sessionNumber) ?? { inFlight: 0, endedAt: 0 };
    this.#unsynced.set(sessionNumber, unsynced);
    unsynced.inFlight += 1;
    return () => {
      unsynced.inFlight -= 1;
      this.#writes += 1;
      unsynced.endedAt = this.#writes;
    };
  }

  /** Records that writes were lost. They may be writes of every session that wrote since the last good sync. */
  noteLoss(): void {
    for (const sessionNumber of this.#unsynced.keys()) this.#lost.add(sessionNumber);
  }

  /**
   * Syncs the file. Throws when this sync fails, or when an earlier sync failed after a write of this session: after a
   * failed sync the kernel forgets which pages were lost, and the next sync succeeds, even that of another session or of
   * another device on the file.
   */
  async sync(sessionNumber: number, syncFile: () => Promise<void>): Promise<void> {
    const covered = this.#writes;
    try {
      await syncFile();
    } catch (error) {
      this.#lost.add(sessionNumber);
      throw error;
    }
    for (const [number, { inFlight, endedAt }] of this.#unsynced)
      if (inFlight === 0 && endedAt <= covered) this.#unsynced.delete(number);
    if (this.#lost.has(sessionNumber))
      throw new Error("acknowledged writes may have been lost earlier in this session");
  }
}
