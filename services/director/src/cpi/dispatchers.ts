import type { CpiServiceDefinition } from "@diskmesh/api/cpi";
import type { HealthDefinition } from "@diskmesh/api/grpc-health";
import { type BackoffLimits, backoffMs, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { Clock, Readiness } from "@diskmesh/service";

export type CpiClient = Client<typeof CpiServiceDefinition>;

/** One of the dispatchers that the config names. */
export interface Dispatcher {
  readonly address: string;
  readonly client: CpiClient;
  readonly health: Pick<Client<typeof HealthDefinition>, "check">;
}

/** The work with a dispatcher besides CPI calls. */
export interface DispatcherDuties {
  /** Makes it refuse former directors; resolves once nothing of theirs runs there. */
  fence(dispatcher: Dispatcher): Promise<void>;
  /** It obeys this director from now on. */
  obeys(dispatcher: Dispatcher): void;
  /** From time to time, of one that obeys. */
  settle(dispatcher: Dispatcher): Promise<void>;
}

export interface DispatchersOptions {
  /** In the order of the config. */
  readonly dispatchers: readonly Dispatcher[];
  readonly readiness: Pick<Readiness, "met" | "missing" | "forget">;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Logger;
}

const LOOK_INTERVAL_MS = 1_000;
const LOOK_AGAIN: BackoffLimits = { minDelayMs: 100, maxDelayMs: 1_000 };
/** Longer than a dispatcher that is busy takes to say so. */
const LOOK_TIMEOUT_MS = 5_000;

/**
 * The dispatchers of this director, any of which does. Calls go to the first in the order of the config that answers and
 * obeys, so that the limits which a dispatcher has for a CPI hold for all of them.
 */
export class Dispatchers {
  readonly #options: DispatchersOptions;
  readonly #stopping = new AbortController();
  /** Why one is not used; those that are not in here are. */
  readonly #whyNot: Map<Dispatcher, string>;

  constructor(options: DispatchersOptions) {
    this.#options = options;
    this.#whyNot = new Map(options.dispatchers.map((dispatcher) => [dispatcher, "it does not obey this director yet"]));
  }

  get all(): readonly Dispatcher[] {
    return this.#options.dispatchers;
  }

  /** Those that answer and obey this director. */
  get obeying(): readonly Dispatcher[] {
    return this.all.filter((dispatcher) => !this.#whyNot.has(dispatcher));
  }

  /** The one for the next call: another than the one at which it has just failed, if there is another. */
  choose(failedAt?: Dispatcher): Dispatcher {
    const { obeying } = this;
    const chosen = obeying.find((dispatcher) => dispatcher !== failedAt) ?? obeying[0];
    if (chosen === undefined) throw new UnavailableError(`no dispatcher can be used: ${this.#whyNone()}`);
    return chosen;
  }

  /** Looks after all of them until `close`; from then on those that obey are used. */
  start(duties: DispatcherDuties): void {
    for (const dispatcher of this.all) void this.#lookAfter(dispatcher, duties);
  }

  close(): void {
    this.#stopping.abort();
    this.#options.readiness.forget("dispatcher");
  }

  async #lookAfter(dispatcher: Dispatcher, duties: DispatcherDuties): Promise<void> {
    const { clock, random, log } = this.#options;
    const { signal } = this.#stopping;
    for (let failures = 0; ; ) {
      const why = await this.#whyNotNow(dispatcher, duties);
      if (signal.aborted) return;
      this.#note(dispatcher, why, duties);
      if (why === undefined)
        await duties
          .settle(dispatcher)
          .catch((error: unknown) => log.debug({ error: messageOf(error) }, "cannot end calls yet"));
      failures = why === undefined ? 0 : failures + 1;
      const pauseMs = why === undefined ? LOOK_INTERVAL_MS : backoffMs(failures, LOOK_AGAIN, random());
      await clock.sleep(pauseMs, signal).catch(() => {});
      if (signal.aborted) return;
    }
  }

  async #whyNotNow(dispatcher: Dispatcher, duties: DispatcherDuties): Promise<string | undefined> {
    try {
      const signal = this.#stopping.signal;
      const { status } = await dispatcher.health.check({}, { signal, deadlineMs: LOOK_TIMEOUT_MS });
      if (status !== "SERVING") return "it says that it does not serve";
      // One that was away may have been started anew, and know of no director any more.
      if (this.#whyNot.has(dispatcher)) await duties.fence(dispatcher);
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  #note(dispatcher: Dispatcher, why: string | undefined, duties: DispatcherDuties): void {
    const { readiness, log } = this.#options;
    const { address } = dispatcher;
    const wasUsed = !this.#whyNot.has(dispatcher);
    if (why === undefined) this.#whyNot.delete(dispatcher);
    else this.#whyNot.set(dispatcher, why);
    if (why === undefined && !wasUsed) {
      log.info({ dispatcher: address }, "the dispatcher obeys this director");
      duties.obeys(dispatcher);
    }
    // Readiness already reports the only dispatcher.
    if (why !== undefined && wasUsed && this.all.length > 1)
      log.warn({ dispatcher: address, why }, `dispatcher ${address} is not used: ${why}`);
    if (this.obeying.length > 0) readiness.met("dispatcher");
    else readiness.missing("dispatcher", this.#whyNone());
  }

  #whyNone(): string {
    return [...this.#whyNot]
      .map(([{ address }, why]) => (why.includes(address) ? why : `${address}: ${why}`))
      .join("; ");
  }
}
