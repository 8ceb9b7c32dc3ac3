import type { Clock } from "@diskmesh/domain";
import { messageOf } from "@diskmesh/domain";
import type { Readiness } from "./readiness.js";

export interface LeaderHealthOptions {
  readonly readiness: Readiness;
  readonly clock: Clock;
  /**
   * Database, and the time without an answer after which it counts as unreachable; undefined when the state is in a
   * folder.
   */
  readonly database: { readonly name: string; readonly silentMs: number } | undefined;
}

const CHECK_INTERVAL_MS = 250;

/**
 * Reports to health checks whether the process leads, with its lease, or which leader it stands by for, and the state
 * of its database.
 */
export class LeaderHealth {
  readonly #options: LeaderHealthOptions;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  /** Set while this process leads; throws once the lease may have expired. */
  #checkMayAct: (() => void) | undefined;

  constructor(options: LeaderHealthOptions) {
    this.#options = options;
  }

  /** Notes an answer of the database about the lease. A standby may take the lease over after `takesOverInMs`. */
  answered(takesOverInMs?: number): void {
    const { clock, readiness } = this.#options;
    if (takesOverInMs !== undefined) readiness.takesOverIn(takesOverInMs);
    this.#answeredAtMs = clock.monotonicMs();
    readiness.met("database");
  }

  standsBy(leaderAddress: string): void {
    const { readiness } = this.#options;
    this.answered();
    readiness.standsBy(leaderAddress);
    readiness.missing("leader", `this process is a standby of the leader at ${leaderAddress}`);
  }

  /** Begins a term: the process leads while `checkMayAct` does not throw. */
  leads(checkMayAct: () => void): void {
    const { readiness } = this.#options;
    this.#checkMayAct = checkMayAct;
    this.answered();
    readiness.standsBy(undefined);
    this.#check();
  }

  /** Records why this process does not lead, after its term or without one. */
  endsLeading(why: string): void {
    const { readiness } = this.#options;
    this.#checkMayAct = undefined;
    readiness.setServing(false);
    readiness.standsBy(undefined);
    readiness.missing("leader", why);
  }

  /** Records that the state cannot be read or written. */
  databaseFails(why: string): void {
    this.#answeredAtMs = Number.NEGATIVE_INFINITY;
    this.#options.readiness.missing("database", why);
  }

  /** Checks the lease and the database periodically until the signal aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#check();
      await this.#options.clock.sleep(CHECK_INTERVAL_MS, signal).catch(() => {});
    }
  }

  #check(): void {
    const { clock, readiness, database } = this.#options;
    const silentMs = clock.monotonicMs() - this.#answeredAtMs;
    if (database !== undefined && Number.isFinite(silentMs) && silentMs >= database.silentMs)
      this.databaseFails(
        `${database.name} has not answered for more than ${database.silentMs} ms; check that it runs and has a primary`,
      );
    if (this.#checkMayAct === undefined) return;
    try {
      this.#checkMayAct();
      readiness.met("leader");
      readiness.setServing(true);
    } catch (error) {
      readiness.missing("leader", messageOf(error));
      readiness.setServing(false);
    }
  }
}
