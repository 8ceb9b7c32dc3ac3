import { sleep, type TabletClock } from "../clock.js";
import type { FollowedState } from "./followed-state.js";
import { beginState, type LoadOptions, type ReadOptions, readLog, readView } from "./load.js";
import type { ClaimEntry } from "./log.js";

export interface FollowerOptions extends LoadOptions {
  readonly clock: TabletClock;
  /** How often the log is looked at: well below the time for which a leader keeps it. */
  readonly intervalMs: number;
  /** Called whenever all state has been read and is followed from there on. */
  readonly onFollowing: () => void;
}

/** Keeps the state of another leader in memory by its log, so that little is left to read after the own claim. */
export class Follower {
  readonly #options: FollowerOptions;
  readonly #stop = new AbortController();
  #state: FollowedState | undefined;
  #running: Promise<void> | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  start(): void {
    this.#running ??= this.#run();
  }

  /** The state right before the own claim; undefined when not all of it could be followed, and must be read anew. */
  async takeOver(claim: ClaimEntry): Promise<FollowedState | undefined> {
    this.#stop.abort();
    await this.#running;
    const state = this.#state;
    this.#state = undefined;
    if (!state?.isComplete || !(await readLog(this.#options, state, claim._id))) return undefined;
    return state.isUpTo(claim) && state.difference() === undefined ? state : undefined;
  }

  close(): void {
    this.#stop.abort();
    this.#state = undefined;
  }

  async #run(): Promise<void> {
    const { clock, intervalMs } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      // An error loses nothing of a complete state. What is wrong is told by the load, should it come to that.
      const isWhole = await this.#readOn().catch(() => this.#state?.isComplete === true);
      if (!isWhole && !signal.aborted) this.#state = undefined;
      await sleep(clock, intervalMs, signal).catch(() => {});
    }
  }

  /** False when what was read so far is of no use. */
  async #readOn(): Promise<boolean> {
    if (this.#state !== undefined) return readLog(this.#options, this.#state);
    return this.#options.server.readInOrder((server) => this.#readAll({ ...this.#options, server }));
  }

  async #readAll(options: ReadOptions): Promise<boolean> {
    const state = await beginState(options);
    this.#state = state;
    let readAtMs = Number.NEGATIVE_INFINITY;
    const { clock, intervalMs, onFollowing } = this.#options;
    const isRead = await readView(options, state, async () => {
      if (this.#stop.signal.aborted) return false;
      if (clock.monotonicMs() < readAtMs + intervalMs) return true;
      readAtMs = clock.monotonicMs();
      return readLog(options, state);
    });
    if (isRead) onFollowing();
    return isRead;
  }
}
