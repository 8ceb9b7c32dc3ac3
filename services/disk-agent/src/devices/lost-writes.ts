/** Tracks the session of a device in which the operating system lost acknowledged writes. */
export class LostWrites {
  #lostSession = 0;
  #writingSession = 0;

  noteWrite(sessionNumber: number): void {
    this.#writingSession = sessionNumber;
  }

  /** Notes lost writes, which may be of the session that wrote last. */
  noteLoss(): void {
    this.#lostSession = Math.max(this.#lostSession, this.#writingSession);
  }

  /**
   * Throws when this session's sync fails, or an earlier one did. After a failed sync the kernel forgets which pages
   * were lost, and the next sync succeeds, including one of another device on the file.
   */
  async sync(sessionNumber: number, syncFile: () => Promise<void>): Promise<void> {
    try {
      await syncFile();
    } catch (error) {
      // Never decreases: an older session's sync may fail late, when a newer session's writes were lost with its own.
      this.#lostSession = Math.max(this.#lostSession, sessionNumber);
      throw error;
    }
    if (this.#lostSession === sessionNumber)
      throw new Error("acknowledged writes may have been lost earlier in this session");
  }
}
