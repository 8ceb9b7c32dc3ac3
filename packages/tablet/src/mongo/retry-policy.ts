import { messageOf, UnavailableError } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../storage/clock.js";
import { LostAnswerError } from "./document-server.js";

const FIRST_PAUSE_MS = 10;
const LONGEST_PAUSE_MS = 200;

export interface RetryPolicyOptions {
  readonly clock: TabletClock;
  /** Aborts all waiting, with its reason. */
  readonly signal: AbortSignal;
  readonly serverName: string;
  /** Time without an answer after which an operation fails. */
  readonly giveUpAfterMs: number;
}

export const FOREVER_MS = Number.POSITIVE_INFINITY;

/**
 * Repeats an operation whose answer was lost. Suitable only for operations that may take effect twice or late without
 * harm.
 */
export class RetryPolicy {
  readonly #options: RetryPolicyOptions;

  constructor(options: RetryPolicyOptions) {
    this.#options = options;
  }

  /**
   * Repeats the operation until it is answered. Rejects with UnavailableError (outcome unknown) after `giveUpAfterMs`.
   */
  async answerOf<T>(operation: () => Promise<T>, giveUpAfterMs = this.#options.giveUpAfterMs): Promise<T> {
    const { clock, signal, serverName } = this.#options;
    const giveUpAtMs = clock.monotonicMs() + giveUpAfterMs;
    for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)) {
      signal.throwIfAborted();
      try {
        return await operation();
      } catch (error) {
        if (!(error instanceof LostAnswerError)) throw error;
        signal.throwIfAborted();
        if (clock.monotonicMs() >= giveUpAtMs) {
          throw new UnavailableError(
            `MongoDB at ${serverName} has given no valid answer for ${giveUpAfterMs} ms: ${messageOf(error)}; check that it runs and has a primary that a majority of its members follows`,
            { cause: error, outcome: "unknown" },
          );
        }
      }
      await sleep(clock, pauseMs, signal);
    }
  }
}
