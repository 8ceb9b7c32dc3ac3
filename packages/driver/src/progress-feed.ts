import { Changes } from "@diskmesh/service";

/** How far a call is: a whole percent, and a line for people. */
export interface Progress {
  readonly percent: number;
  readonly text: string;
}

/** A published progress. Numbers count up from 1. */
export interface PublishedProgress extends Progress {
  readonly number: number;
}

const MIN_PAUSE_MS = 1_000;
const SHARE_OF_DURATION = 0.01;

/**
 * Returns the least time between two published progresses of a call. The pause grows with the call, so that a call of
 * an hour has about 500 of them, and a call of a day about 800.
 */
export function pauseMs(elapsedMs: number): number {
  return Math.max(MIN_PAUSE_MS, elapsedMs * SHARE_OF_DURATION);
}

/** The progress of a call. Keeps only the latest that the driver told, and publishes it after a pause. */
export class ProgressFeed {
  readonly #begunAtMs = performance.now();
  #publishedAtMs = Number.NEGATIVE_INFINITY;
  #told: Progress | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #published = new Changes<void>();
  latest: PublishedProgress | undefined;

  tell(progress: Progress): void {
    this.#told = progress;
    const nowMs = performance.now();
    const dueAtMs = this.#publishedAtMs + pauseMs(nowMs - this.#begunAtMs);
    this.#timer ??= setTimeout(() => this.#publish(), Math.max(0, dueAtMs - nowMs));
  }

  /** Resolves once a progress with a higher number is published. */
  async after(number: number): Promise<void> {
    using published = this.#published.watch();
    while ((this.latest?.number ?? 0) <= number) await published.changed();
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #publish(): void {
    this.#timer = undefined;
    const { percent, text } = this.latest ?? {};
    if (this.#told === undefined || (this.#told.percent === percent && this.#told.text === text)) return;
    this.#publishedAtMs = performance.now();
    this.latest = { ...this.#told, number: (this.latest?.number ?? 0) + 1 };
    this.#published.touch();
  }
}
