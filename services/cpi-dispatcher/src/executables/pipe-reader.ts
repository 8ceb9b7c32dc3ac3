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
  #bytesPerSecond: number;
  /** How many bytes may be read now; below 0 what was read too early. */
  #allowance: number;
  #countedAtMs = performance.now();
  #resumeTimer: NodeJS.Timeout | undefined;

  /**
   * At most so many bytes are read in a second, those of the last second included: whoever writes faster waits, as its
   * pipe is full.
   */
  constructor(
    readonly pipe: Readable,
    onBytes: (bytes: Buffer) => void,
    bytesPerSecond = Number.POSITIVE_INFINITY,
  ) {
    this.#bytesPerSecond = bytesPerSecond;
    this.#allowance = bytesPerSecond;
    pipe.on("data", (bytes: Buffer) => {
      this.#bytesRead += bytes.length;
      this.#slowDown(bytes.length);
      onBytes(bytes);
    });
    // A process may close its outputs early, or be killed.
    pipe.on("error", () => {});
    this.#closed = new Promise((resolve) => {
      pipe.once("close", () => {
        this.#isClosed = true;
        clearTimeout(this.#resumeTimer);
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

  /** From now on reads as fast as it can: its writer has ended, and what it left behind is little. */
  hurry(): void {
    this.#bytesPerSecond = Number.POSITIVE_INFINITY;
    clearTimeout(this.#resumeTimer);
    this.pipe.resume();
  }

  #slowDown(bytes: number): void {
    if (this.#bytesPerSecond === Number.POSITIVE_INFINITY) return;
    const nowMs = performance.now();
    const gained = ((nowMs - this.#countedAtMs) / 1_000) * this.#bytesPerSecond;
    this.#allowance = Math.min(this.#bytesPerSecond, this.#allowance + gained) - bytes;
    this.#countedAtMs = nowMs;
    if (this.#allowance >= 0) return;
    this.pipe.pause();
    clearTimeout(this.#resumeTimer);
    this.#resumeTimer = setTimeout(() => this.pipe.resume(), (-this.#allowance / this.#bytesPerSecond) * 1_000);
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
