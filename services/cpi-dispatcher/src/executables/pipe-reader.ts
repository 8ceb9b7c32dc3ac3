import type { Readable } from "node:stream";
import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";

/** Silence after which a pipe that another process holds open counts as read. */
const QUIET_MS = 200;
const TICK_MS = 20;

/** Reads a process's output pipe and detects when all output has arrived. */
export class PipeReader {
  readonly #closed: Promise<void>;
  #isClosed = false;
  #bytesRead = 0;
  #bytesPerSecond: number;
  /** Bytes that may be read now; negative after reading ahead. */
  #allowance: number;
  #countedAtMs = performance.now();
  #resumeTimer: NodeJS.Timeout | undefined;

  /**
   * `bytesPerSecond` limits the read rate, with a burst of a second's bytes. A faster writer blocks on the full pipe.
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
    // Ignored: a process may close its outputs early or be killed.
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
   * Resolves at the end of the pipe, after the quiet time without data, or after `maxMs`. Only time in which this
   * process could read counts, because an answer stays in the pipe while the event loop is busy.
   */
  async untilQuiet(signal: AbortSignal, maxMs = Number.POSITIVE_INFINITY): Promise<void> {
    await Promise.race([this.#closed, this.#quiet(signal, maxMs)]);
  }

  /** Removes the rate limit, because the writer has exited and the rest is small. */
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
      // A late timer fires before pending reads; reads are delivered by the end of the turn.
      await nextTurn();
      if (this.#isClosed || signal.aborted) return;
      quietMs = this.#bytesRead === before ? quietMs + TICK_MS : 0;
    }
  }
}
