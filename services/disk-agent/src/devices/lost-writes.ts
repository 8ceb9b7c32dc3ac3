/** In which session of a device the operating system failed to put acknowledged writes onto it. */
export class LostWrites {
  #lostSession = 0;
  #writingSession = 0;

  noteWrite(sessionNumber: number): void {
    this.#writingSession = sessionNumber;
  }

  /** Some were lost: perhaps of the session that wrote last. */
  noteLoss(): void {
    this.#lostSession = Math.max(this.#lostSession, this.#writingSession);
  }

  /**
   * Throws when that session's sync fails, or one did earlier: after a failed sync the kernel forgets which pages were
   * lost, and the next sync succeeds, also one of another device on the file.
   */
  async sync(sessionNumber: number, syncFile: () => Promise<void>): Promise<void> {
    try {
      await syncFile();
    } catch (error) {
      // Never lower: that of an older session may fail late, when a newer one's writes were lost with its own.
      this.#lostSession = Math.max(this.#lostSession, sessionNumber);
      throw error;
    }
    if (this.#lostSession === sessionNumber)
      throw new Error("acknowledged writes may have been lost earlier in this session");
  }
}
