import type { Clock } from "@diskmesh/domain";
import { messageOf } from "@diskmesh/domain";
import type { Readiness } from "./readiness.js";

export interface LeaderHealthOptions {
  readonly readiness: Readiness;
  readonly clock: Clock;
  /** One that has not answered for so long is away; undefined where the state is in a folder. */
  readonly database: { readonly name: string; readonly silentMs: number } | undefined;
}

const LOOK_INTERVAL_MS = 250;

/** Tells health checks whether a process leads, with its lease, or for whom it stands by, and of its database. */
export class LeaderHealth {
  readonly #options: LeaderHealthOptions;
  #answeredAtMs = Number.NEGATIVE_INFINITY;
  /** While a term lasts. */
  #checkMayAct: (() => void) | undefined;

  constructor(options: LeaderHealthOptions) {
    this.#options = options;
  }

  /** The database has answered a question of the lease; a standby may take that over in so long. */
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
    readiness.missing("leader", `this process stands by: the one at ${leaderAddress} leads`);
  }

  /** A term has begun: the process leads for as long as `checkMayAct` does not throw. */
  leads(checkMayAct: () => void): void {
    const { readiness } = this.#options;
    this.#checkMayAct = checkMayAct;
    this.answered();
    readiness.standsBy(undefined);
    this.#look();
  }

  /** The term is over, or none has come about. */
  endsLeading(why: string): void {
    const { readiness } = this.#options;
    this.#checkMayAct = undefined;
    readiness.setServing(false);
    readiness.standsBy(undefined);
    readiness.missing("leader", why);
  }

  /** The state cannot be read or written. */
  databaseFails(why: string): void {
    this.#answeredAtMs = Number.NEGATIVE_INFINITY;
    this.#options.readiness.missing("database", why);
  }

  /** Looks at the lease and the database from time to time, until the signal aborts. */
  async watch(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      this.#look();
      await this.#options.clock.sleep(LOOK_INTERVAL_MS, signal).catch(() => {});
    }
  }

  #look(): void {
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
