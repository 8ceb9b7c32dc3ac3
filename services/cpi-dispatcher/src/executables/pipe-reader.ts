import type { Readable } from "node:stream";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";

/** So long nothing must come before a pipe that somebody holds open counts as read. */
const QUIET_MS = 200;
const TICK_MS = 20;

/** Reads what comes out of a process, and tells when all of it has come. */
export class PipeReader {
  readonly #closed: Promise<void>;
  #isClosed = false;
  #bytesRead = 0;

  constructor(
    readonly pipe: Readable,
    onBytes: (bytes: Buffer) => void,
  ) {
    pipe.on("data", (bytes: Buffer) => {
      this.#bytesRead += bytes.length;
      onBytes(bytes);
    });
    // A process may close its outputs early, or be killed.
    pipe.on("error", () => {});
    this.#closed = new Promise((resolve) => {
      pipe.once("close", () => {
        this.#isClosed = true;
        resolve();
      });
    });
  }

  /**
   * Returns at the end of the pipe, or when nothing has come for the grace time, or after `maxMs` while things do come.
   * Time counts only as far as this process could read in it: an answer waits in the pipe while the event loop is busy.
   */
  async untilQuiet(signal: AbortSignal, maxMs = Number.POSITIVE_INFINITY): Promise<void> {
    await Promise.race([this.#closed, this.#quiet(signal, maxMs)]);
  }

  async #quiet(signal: AbortSignal, maxMs: number): Promise<void> {
    let quietMs = 0;
    for (let aliveMs = 0; quietMs < QUIET_MS && aliveMs < maxMs; aliveMs += TICK_MS) {
      const before = this.#bytesRead;
      await sleep(TICK_MS);
      // A timer may come late, and then before what can be read; the turn ends after that.
      await nextTurn();
      if (this.#isClosed || signal.aborted) return;
      quietMs = this.#bytesRead === before ? quietMs + TICK_MS : 0;
    }
  }
}
