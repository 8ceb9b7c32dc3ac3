import { ResourceExhaustedError } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import { placesPerLogin } from "../tasks/worker-quotas.js";
import type { RowCache } from "./row-cache.js";
import type { Troubles } from "./troubles.js";

export interface FeedOptions {
  readonly rowCache: RowCache;
  readonly limits: {
    readonly maxViewers: number;
    readonly sendIntervalMs: number;
    readonly beatIntervalMs: number;
    readonly lingerMs: number;
  };
  /** Keeps the cached rows current until the signal aborts. */
  readonly keepUp: (signal: AbortSignal) => void;
  /** Returns the objects with trouble, read once. */
  readonly readTroubles: (signal: AbortSignal) => Promise<Troubles>;
  readonly clock: Clock;
}

interface Viewer {
  readonly login: string;
  /** The id of the browser's session; undefined for a login that has none. */
  readonly session: string | undefined;
}

/** Maximum rows in a message, which is built at once and buffered for a client. */
const MAX_ROWS = 1_000;

/**
 * Server-sent events of the cached rows for browsers. Rows are kept current while at least one browser is connected,
 * and for `lingerMs` afterwards. A slow browser receives each changed row once, in its latest state.
 */
export class Feed {
  readonly #options: FeedOptions;
  readonly #closed = new AbortController();
  /** The connected browsers, each with what ends its events. */
  readonly #viewers = new Map<Viewer, AbortController>();
  #keepingUp: AbortController | undefined;
  #linger: NodeJS.Timeout | undefined;

  constructor(options: FeedOptions) {
    this.#options = options;
  }

  /**
   * Returns the events for a browser until it disconnects. Throws ResourceExhaustedError beyond the limit of browsers
   * in total or per login.
   */
  open(viewer: Viewer, gone: AbortSignal): AsyncGenerator<string> {
    const { login } = viewer;
    const { maxViewers } = this.#options.limits;
    if (this.#viewers.size >= maxViewers)
      throw new ResourceExhaustedError(`${maxViewers} browsers have the page open, the limit: close one of them`, {
        reason: "QUEUE_FULL",
        retryAfterMs: 5_000,
      });
    const ofLogin = [...this.#viewers.keys()].filter((other) => other.login === login).length;
    if (ofLogin >= placesPerLogin(maxViewers))
      throw new ResourceExhaustedError(
        `${ofLogin} browsers of ${login} have the page open, half of the limit of ${maxViewers}: close one of them`,
        { reason: "QUEUE_FULL", retryAfterMs: 5_000 },
      );
    const ending = new AbortController();
    this.#viewers.set(viewer, ending);
    this.#begin();
    const ended = AbortSignal.any([gone, ending.signal, this.#closed.signal]);
    // `leave` is called on the signal instead of at the generator's end, because the generator of a browser that
    // disconnects at once never starts.
    const leave = (): void => this.#left(viewer);
    if (ended.aborted) leave();
    else ended.addEventListener("abort", leave, { once: true });
    return this.#events(ended);
  }

  /** Ends the event streams of a session that its user has ended. */
  endSession(sessionId: string): void {
    for (const [{ session }, ending] of [...this.#viewers]) if (session === sessionId) ending.abort();
  }

  /** Returns the objects that the page lists as needing attention, without a browser. */
  troubles(signal: AbortSignal): Promise<Troubles> {
    return this.#options.readTroubles(signal);
  }

  /** Ends all event streams. The browsers reconnect to the leader. */
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

  /**
   * Counts a browser as gone. When it was the last browser, the rows stay current for `lingerMs`, because the browser
   * may only be reloading the page.
   */
  #left(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    if (this.#viewers.size > 0) return;
    this.#linger = setTimeout(() => {
      this.#keepingUp?.abort();
      this.#keepingUp = undefined;
      this.#options.rowCache.clear();
    }, this.#options.limits.lingerMs).unref();
  }

  async *#events(ended: AbortSignal): AsyncGenerator<string> {
    const { rowCache, limits, clock } = this.#options;
    const changed = new Set<string>();
    let wake = (): void => {};
    let isComplete = false;
    const remove = rowCache.add({ changed, wake: () => wake() });
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
        // At most MAX_ROWS rows are taken for a message, so that a row that changes again before its message is sent
        // once.
        while (changed.size > 0 && !ended.aborted) yield `event: rows\ndata: ${rowCache.textOf(taken(changed))}\n\n`;
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
