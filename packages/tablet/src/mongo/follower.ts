import { InvalidStateError, UnavailableError } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../storage/clock.js";
import { CURE } from "../storage/format.js";
import type { FollowedState } from "./followed-state.js";
import { beginState, type LoadOptions, type ReadOptions, readLog, readView } from "./load.js";
import type { ClaimEntry } from "./log.js";
import { type CheckedState, editedText, keepViewChecked, type WrongDocument } from "./view-check.js";

export interface FollowerOptions extends LoadOptions {
  readonly clock: TabletClock;
  /** Interval of reading the log, well below the time for which a leader keeps applied entries. */
  readonly intervalMs: number;
  /** Interval of comparing the view with the state in memory. */
  readonly checkIntervalMs: number;
  /** Called each time the whole state has been read and log entries keep it current. */
  readonly onFollowing: () => void;
  /** Called with a description of the differences between view and state, and the number of affected documents. */
  readonly onEdited: (text: string, documents: number) => void;
}

const LEADER_MENDS = "the leader writes them again at its next check";

/**
 * A standby's copy of the state in memory, kept current by following the log. A takeover then needs to read only the
 * newest entries.
 */
export class Follower {
  readonly #options: FollowerOptions;
  readonly #stop = new AbortController();
  #state: FollowedState | undefined;
  #running: Promise<void> | undefined;
  /** Number of completed reads of the log. */
  #reads = 0;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: FollowerOptions) {
    this.#options = options;
  }

  start(): void {
    if (this.#running !== undefined) return;
    this.#running = this.#run();
    const { checkIntervalMs: intervalMs } = this.#options;
    const [state, onWrong] = [() => this.#checkedState(), (wrong: readonly WrongDocument[]) => this.#report(wrong)];
    void keepViewChecked({ ...this.#options, intervalMs, signal: this.#stop.signal, state, onWrong });
  }

  /**
   * Stops following, and returns the state as of this process's claim. Undefined when it is incomplete and must be
   * loaded anew.
   */
  async takeOver(claim: ClaimEntry): Promise<FollowedState | undefined> {
    this.#stop.abort();
    await this.#running;
    const state = this.#state;
    this.#state = undefined;
    if (!state?.isComplete || !(await readLog(this.#options, state, claim._id))) return undefined;
    return state.isUpTo(claim) && state.difference(claim) === undefined ? state : undefined;
  }

  close(): void {
    this.#stop.abort();
    this.#state = undefined;
  }

  #checkedState(): CheckedState | undefined {
    const state = this.#state;
    if (!state?.isComplete) return undefined;
    const { clock, intervalMs } = this.#options;
    const until = async (condition: () => boolean): Promise<void> => {
      while (!condition()) {
        await sleep(clock, intervalMs, this.#stop.signal);
        if (this.#state !== state) throw new UnavailableError("the state that was compared is not followed any more");
      }
    };
    return {
      firstNumber: () => state.firstNumber,
      size: () => state.size,
      tables: () => state.tables,
      keys: (table) => state.keys(table),
      get: (table, id) => state.get(table, id),
      checksum: (table, id) => state.get(table, id)?.checksum,
      lastNumber: () => state.lastNumber,
      applied: (upTo) => {
        const last = Math.max(upTo, state.lastUnapplied);
        return until(() => state.checkpoint >= last);
      },
      caughtUp: () => {
        // The read under way may have begun before this call, so a second one must end, too.
        const wanted = this.#reads + 2;
        return until(() => this.#reads >= wanted);
      },
    };
  }

  async #report(wrong: readonly WrongDocument[]): Promise<void> {
    this.#options.onEdited(editedText(this.#options, wrong, LEADER_MENDS), wrong.length);
  }

  /** Reports a problem at most once per check interval, because every read finds it again. */
  #reportProblem(problem: string): void {
    const { clock, checkIntervalMs, server, tabletName, onEdited } = this.#options;
    const nowMs = clock.monotonicMs();
    if (nowMs < this.#reportedAtMs + checkIntervalMs) return;
    this.#reportedAtMs = nowMs;
    const reason = problem.replace(`; ${CURE}`, "");
    onEdited(
      `tablet ${tabletName} in MongoDB at ${server.name} was read incomplete by this standby: ${reason}; ${LEADER_MENDS}, keep the leader running until then`,
      1,
    );
  }

  async #run(): Promise<void> {
    const { clock, intervalMs } = this.#options;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      // A read error does not invalidate a complete state.
      const isWhole = await this.#readOn().catch((error) => {
        if (error instanceof InvalidStateError) this.#reportProblem(error.message);
        return this.#state?.isComplete === true;
      });
      if (!isWhole && !signal.aborted) this.#state = undefined;
      await sleep(clock, intervalMs, signal).catch(() => {});
    }
  }

  /** Reads on; returns false when the state read so far must be discarded. */
  async #readOn(): Promise<boolean> {
    if (this.#state !== undefined) {
      const isRead = await readLog(this.#options, this.#state);
      this.#reads++;
      const difference = isRead ? this.#state.difference() : undefined;
      if (difference !== undefined) this.#reportProblem(difference);
      return isRead;
    }
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
