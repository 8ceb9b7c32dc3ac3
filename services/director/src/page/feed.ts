import { ResourceExhaustedError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { placesPerLogin } from "../tasks/worker-shares.js";
import type { Board } from "./board.js";

export interface FeedOptions {
  readonly board: Board;
  readonly limits: {
    readonly maxViewers: number;
    readonly sendIntervalMs: number;
    readonly beatIntervalMs: number;
    readonly lingerMs: number;
  };
  /** Keeps the board's rows up, until the signal aborts. */
  readonly keepUp: (signal: AbortSignal) => void;
  readonly clock: Clock;
}

/** Rows in one message: what is built at once, and waits for a client. */
const MAX_ROWS = 1_000;

/**
 * Server-sent events of the board for each browser that looks. Only while somebody does is anything asked for. A browser
 * that reads slowly gets each row as it is by then, and no row twice for nothing.
 */
export class Feed {
  readonly #options: FeedOptions;
  readonly #closed = new AbortController();
  #viewerCount = 0;
  readonly #viewersByLogin = new Map<string, number>();
  #keepingUp: AbortController | undefined;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /** The events for one browser until it goes away; throws ResourceExhaustedError beyond so many, and so many of a login. */
  open(login: string, gone: AbortSignal): AsyncGenerator<string> {
    const { maxViewers } = this.#options.limits;
    if (this.#viewerCount >= maxViewers)
      throw new ResourceExhaustedError(`${maxViewers} browsers look already, which is the limit: close one`, {
        reason: "QUEUE_FULL",
        retryAfterMs: 5_000,
      });
    const ofLogin = this.#viewersByLogin.get(login) ?? 0;
    if (ofLogin >= placesPerLogin(maxViewers))
      throw new ResourceExhaustedError(
        `${ofLogin} browsers of ${login} look already, half of the ${maxViewers} that may: close one`,
        { reason: "QUEUE_FULL", retryAfterMs: 5_000 },
      );
    this.#viewerCount++;
    this.#viewersByLogin.set(login, ofLogin + 1);
    this.#begin();
    const ended = AbortSignal.any([gone, this.#closed.signal]);
    // Not at the end of the events: those of a browser that went away at once are never begun.
    const leave = (): void => this.#left(login);
    if (ended.aborted) leave();
    else ended.addEventListener("abort", leave, { once: true });
    return this.#events(ended);
  }

  /** Ends the events of all browsers; they come again, to whoever leads then. */
  close(): void {
    this.#closed.abort();
    clearTimeout(this.#linger);
    this.#keepingUp?.abort();
  }

  #begin(): void {
    clearTimeout(this.#linger);
    if (this.#keepingUp !== undefined) return;
    this.#keepingUp = new AbortController();
    this.#options.keepUp(this.#keepingUp.signal);
  }

  /** The rows stay a while, for somebody who loads the page again. */
  #left(login: string): void {
    this.#viewerCount--;
    const ofLogin = (this.#viewersByLogin.get(login) ?? 0) - 1;
    if (ofLogin > 0) this.#viewersByLogin.set(login, ofLogin);
    else this.#viewersByLogin.delete(login);
    if (this.#viewerCount > 0) return;
    this.#linger = setTimeout(() => {
      this.#keepingUp?.abort();
      this.#keepingUp = undefined;
      this.#options.board.clear();
    }, this.#options.limits.lingerMs).unref();
  }

  async *#events(ended: AbortSignal): AsyncGenerator<string> {
    const { board, limits, clock } = this.#options;
    const changed = new Set<string>();
    let wake = (): void => {};
    let isComplete = false;
    const remove = board.add({ changed, wake: () => wake() });
    try {
      yield `retry: 1000\nevent: begin\ndata: {}\n\n`;
      while (!ended.aborted) {
        if (changed.size === 0) {
          const woken = new AbortController();
          wake = () => woken.abort();
          await clock.sleep(limits.beatIntervalMs, AbortSignal.any([woken.signal, ended])).catch(() => {});
          wake = () => {};
        }
        if (ended.aborted) return;
        if (changed.size === 0) yield "event: beat\ndata: {}\n\n";
        // A few at a time: meanwhile the rest may change again, and is sent once.
        while (changed.size > 0 && !ended.aborted) yield `event: rows\ndata: ${board.textOf(taken(changed))}\n\n`;
        if (!isComplete) yield "event: complete\ndata: {}\n\n";
        isComplete = true;
        await clock.sleep(limits.sendIntervalMs, ended).catch(() => {});
      }
    } finally {
      remove();
    }
  }
}

function taken(changed: Set<string>): string[] {
  const keys: string[] = [];
  for (const key of changed) {
    if (keys.push(key) === MAX_ROWS) break;
  }
  for (const key of keys) changed.delete(key);
  return keys;
}
