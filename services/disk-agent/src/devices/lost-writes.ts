/** Remembers for a device the last session in which the operating system lost acknowledged writes. */
export class LostWrites {
  #lostSession = 0;
  #writingSession = 0;

  noteWrite(sessionNumber: number): void {
    this.#writingSession = sessionNumber;
  }

  /** Records that writes were lost. Marks the session that wrote last, because they may be its writes. */
  noteLoss(): void {
    this.#lostSession = Math.max(this.#lostSession, this.#writingSession);
  }

  /**
   * Syncs the file. Throws when this sync fails, or when an earlier sync of this session failed: after a failed sync
   * the kernel forgets which pages were lost, and the next sync succeeds, even that of another device on the file.
   */
  async sync(sessionNumber: number, syncFile: () => Promise<void>): Promise<void> {
    try {
      await syncFile();
    } catch (error) {
      // Keeps the maximum, because the sync of an older session may fail late, after a newer session's writes were lost
      // as well.
      this.#lostSession = Math.max(this.#lostSession, sessionNumber);
      throw error;
    }
    if (this.#lostSession === sessionNumber)
      throw new Error("acknowledged writes may have been lost earlier in this session");
  }
}
