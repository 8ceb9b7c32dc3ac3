import type { Clock } from "@diskmesh/domain";
import {
  backoffMs,
  DiskFullError,
  DomainError,
  FencedError,
  LEADER_ADDRESS,
  type Logger,
  messageOf,
  servedElsewhere,
  UnavailableError,
} from "@diskmesh/domain";
import type { LeaderHealth } from "../health/leader-health.js";
import { Lifecycle } from "./lifecycle.js";

/** Result of taking the lead: a term lasts until this process stops or loses the lease. */
export interface Term<Context> {
  readonly context: Context;
  /** Resolves with the reason when this process may no longer lead. */
  readonly lost: Promise<Error>;
  /** Throws unless this process still holds the lease, as far as its clock can tell. */
  readonly checkMayAct: () => void;
}

/** Callbacks for the time in which another process leads. */
export interface Waiting {
  /** Aborts when the service stops. */
  readonly signal: AbortSignal;
  readonly onStandby: (leaderAddress: string) => void;
  /**
   * Called when the database has answered about the lease. The process may take the lease over after `takesOverInMs`.
   */
  readonly onAnswer: (takesOverInMs?: number) => void;
  /** Called in a standby when the leader's whole state was read and is kept current. */
  readonly onFollowing: () => void;
  /** Called with a problem that an operator should check; undefined when it is over. */
  readonly onTrouble: (trouble: string | undefined) => void;
  /** Called with a problem that an operator may want to fix; no data is in danger. */
  readonly onWarning: (warning: string) => void;
  /** Called when somebody edited the human-readable copies in the store. */
  readonly onEdited: (text: string, documents: number) => void;
}

export interface LeadershipOptions<Context> {
  /** Name of the service in messages, e.g. "disk-registry". */
  readonly service: string;
  /**
   * True when another process can lead while this process does not. If false, the service fails instead of waiting; it
   * waits only for free space on the disk.
   */
  readonly standsBy: boolean;
  /**
   * Waits until this process may lead, then builds the serving context. Resources added to the scope are stopped with
   * the term.
   */
  readonly lead: (scope: Lifecycle, waiting: Waiting) => Promise<Term<Context>>;
  readonly server: { abortCalls(reason: DomainError): void };
  readonly health: LeaderHealth;
  /** Called when this process can neither lead nor stand by any more. */
  readonly onFailure: (error: unknown) => void;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

const BACKOFF = { minDelayMs: 200, maxDelayMs: 5_000 };

/**
 * Leads whenever this process may. At the end of a term it drops all its state and stands by again. When the disk is
 * full it serves nothing until there is space again.
 */
export class Leadership<Context> {
  readonly #options: LeadershipOptions<Context>;
  readonly #stop = new AbortController();
  #context: Context | undefined;
  /**
   * Last known address of another leader. Undefined until this process knows another leader, and again at the end of
   * its own term.
   */
  #leaderAddress: string | undefined;
  /** Full disk because of which this process does not serve although no other process leads. This process retries. */
  #trouble: DiskFullError | undefined;
  #running: Promise<void> | undefined;
  /** Resources of the running term, or of the term that is ending. */
  #scope: Lifecycle | undefined;

  constructor(options: LeadershipOptions<Context>) {
    this.#options = options;
  }

  /**
   * Returns the context of handlers. Throws UnavailableError with the leader's address while this process does not
   * lead.
   */
  current(): Context {
    if (this.#context !== undefined) return this.#context;
    const { service } = this.#options;
    if (this.#trouble !== undefined)
      throw new UnavailableError(`this ${service} does not serve until there is disk space: ${this.#trouble.message}`);
    throw this.#leaderAddress === undefined
      ? servedElsewhere(`this ${service} is not ready: it loads its state, or does not know the leader yet; try again`)
      : servedElsewhere(`this ${service} is a standby: call the leader at ${this.#leaderAddress}`, this.#leaderAddress);
  }

  /** Resolves once this process leads or stands by, and continues from there; rejects when it can do neither. */
  start(): Promise<void> {
    return new Promise((resolve, reject) => {
      let started = false;
      const onStarted = (): void => {
        started = true;
        resolve();
      };
      // A stop may end the run before this process leads or stands by; the promise then resolves.
      this.#running = this.#run(onStarted).then(resolve, (error: unknown) =>
        started ? this.#options.onFailure(error) : reject(error),
      );
    });
  }

  /** Resource that `close` waits for. */
  get waitsFor(): string {
    return this.#scope?.waitsFor ?? "";
  }

  /** Hands the lease over if this process leads. */
  async close(): Promise<void> {
    this.#stop.abort(new UnavailableError(`the ${this.#options.service} is stopping`));
    await this.#running;
  }

  async #run(onStarted: () => void): Promise<void> {
    const { clock, random, log, standsBy } = this.#options;
    const { signal } = this.#stop;
    void this.#options.health.watch(signal);
    let started = false;
    const begin = (): void => {
      started = true;
      onStarted();
    };
    for (let failures = 0; !signal.aborted; ) {
      try {
        const reason = await this.#lead(begin);
        if (signal.aborted) return;
        if (!standsBy || reason instanceof DiskFullError) throw reason;
        failures = 0;
        this.#leaderAddress = addressIn(reason);
        log.warn({ error: messageOf(reason) }, "leadership lost");
      } catch (error) {
        if (signal.aborted) return;
        if (!this.#mayTryAgain(error, started)) throw error;
        this.#trouble = error instanceof DiskFullError ? error : undefined;
        this.#options.health.endsLeading(`it can neither lead nor stand by: ${messageOf(error)}`);
        this.#options.health.databaseFails(messageOf(error));
        log.warn({ error: messageOf(error), failures }, "leader election failed, retrying");
        await clock.sleep(backoffMs(failures++, BACKOFF, random()), signal).catch(() => {});
      }
    }
  }

  /**
   * Returns true when the error is worth a retry. Errors before the first term or standby are reported instead, because
   * an operator is watching the start.
   */
  #mayTryAgain(error: unknown, started: boolean): boolean {
    if (error instanceof DiskFullError) return started;
    const passes = error instanceof DomainError && error.retryable;
    return this.#options.standsBy && passes && (started || error instanceof FencedError);
  }

  /** Resolves with the reason when the term is over. */
  async #lead(onStarted: () => void): Promise<unknown> {
    const { lead, health, log } = this.#options;
    const scope = new Lifecycle(log);
    this.#scope = scope;
    const onStandby = (leaderAddress: string): void => {
      this.#leaderAddress = leaderAddress;
      health.standsBy(leaderAddress);
      log.info({ leaderAddress }, "standby mode entered");
      onStarted();
    };
    let reason: unknown;
    const onFollowing = (): void => log.info({}, "standby caught up with the leader");
    const onTrouble = (trouble: string | undefined): void => {
      if (trouble === undefined) log.info({ alertEnded: "store_refuses_writes" }, "store writes recovered");
      else log.error({ alert: "store_refuses_writes" }, trouble);
    };
    const onWarning = (warning: string): void => log.warn({}, warning);
    const onEdited = (text: string, documents: number): void => log.warn({ alert: "store_edited", documents }, text);
    const onAnswer = (takesOverInMs?: number): void => health.answered(takesOverInMs);
    const waiting = { signal: this.#stop.signal, onStandby, onAnswer, onFollowing, onTrouble, onWarning, onEdited };
    try {
      const { context, lost, checkMayAct } = await lead(scope, waiting);
      this.#context = context;
      this.#trouble = undefined;
      health.leads(checkMayAct);
      onStarted();
      const first = await Promise.race([lost, aborted(scope.stopping), aborted(this.#stop.signal)]);
      reason = scope.failure?.error ?? first;
      return reason;
    } finally {
      this.#endServing(reason);
      for (const alertEnded of ["store_refuses_writes", "store_edited"] as const)
        if (log.alerts?.current.has(alertEnded)) log.info({ alertEnded }, "the term is over");
      scope.beginStop();
      await scope.stopAll();
    }
  }

  #endServing(reason: unknown): void {
    if (this.#context === undefined) return;
    const { server, health, service } = this.#options;
    this.#context = undefined;
    this.#leaderAddress = undefined;
    health.endsLeading(reason === undefined ? "the process stops" : `it leads no more: ${messageOf(reason)}`);
    // The running calls may have had an effect, and no process will complete them, so their outcome is unknown.
    const why = reason instanceof DiskFullError ? ` (${reason.message})` : "";
    server.abortCalls(
      new UnavailableError(`this ${service} leads no more${why}; whether the call took effect is not known`, {
        outcome: "unknown",
      }),
    );
  }
}

function aborted(signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    else signal.addEventListener("abort", () => resolve(signal.reason), { once: true });
  });
}

function addressIn(reason: unknown): string | undefined {
  return (reason instanceof DomainError && reason.about[LEADER_ADDRESS]) || undefined;
}
