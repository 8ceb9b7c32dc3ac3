import type { CpiServiceDefinition } from "@diskmesh/api/cpi";
import type { HealthDefinition } from "@diskmesh/api/grpc-health";
import { type BackoffLimits, backoffMs, knownAlert, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
import { alertsIn, type Client } from "@diskmesh/rpc";
import type { Clock, Readiness } from "@diskmesh/service";

export type CpiClient = Client<typeof CpiServiceDefinition>;

export interface Dispatcher {
  readonly address: string;
  readonly client: CpiClient;
  readonly health: Pick<Client<typeof HealthDefinition>, "list">;
}

export interface DispatcherDuties {
  /** Makes the dispatcher refuse former directors. Resolves once none of their calls runs there. */
  fence(dispatcher: Dispatcher): Promise<void>;
  /** Called when the dispatcher begins to accept only this director. */
  obeys(dispatcher: Dispatcher): void;
  /** Called periodically while the dispatcher accepts this director. */
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
/** Timeout of a health check. Longer than a busy dispatcher takes to answer. */
const LOOK_TIMEOUT_MS = 5_000;

/**
 * The dispatchers of this director. Calls go to the first dispatcher, in the order of the config, that answers and
 * accepts only this director, so that a dispatcher's limits for a CPI cover all calls.
 */
export class Dispatchers {
  readonly #options: DispatchersOptions;
  readonly #stopping = new AbortController();
  /** The reason why a dispatcher is not used. Dispatchers without an entry are used. */
  readonly #whyNot: Map<Dispatcher, string>;
  /** Names of the alerts of each dispatcher that has some. */
  readonly #alerts = new Map<Dispatcher, string>();

  constructor(options: DispatchersOptions) {
    this.#options = options;
    this.#whyNot = new Map(
      options.dispatchers.map((dispatcher) => [dispatcher, "the dispatcher has not accepted this director yet"]),
    );
  }

  get all(): readonly Dispatcher[] {
    return this.#options.dispatchers;
  }

  /** Returns the dispatchers that answer and accept only this director. */
  get obeying(): readonly Dispatcher[] {
    return this.all.filter((dispatcher) => !this.#whyNot.has(dispatcher));
  }

  /**
   * Returns the dispatcher for the next call, preferably not the dispatcher at which the call has just failed. Throws
   * UnavailableError when no dispatcher accepts this director.
   */
  choose(failedAt?: Dispatcher): Dispatcher {
    const { obeying } = this;
    const chosen = obeying.find((dispatcher) => dispatcher !== failedAt) ?? obeying[0];
    if (chosen === undefined) throw new UnavailableError(`no dispatcher is usable: ${this.#whyNone()}`);
    return chosen;
  }

  /** Monitors all dispatchers until `close`. A dispatcher is used once it accepts only this director. */
  start(duties: DispatcherDuties): void {
    for (const dispatcher of this.all) void this.#lookAfter(dispatcher, duties);
  }

  close(): void {
    this.#stopping.abort();
    this.#options.readiness.forget("dispatcher");
    for (const dispatcher of this.all) this.#noteAlerts(dispatcher, []);
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
          .catch((error: unknown) =>
            log.debug({ dispatcher: dispatcher.address, error: messageOf(error) }, "abandoned CPI call cleanup failed"),
          );
      failures = why === undefined ? 0 : failures + 1;
      const pauseMs = why === undefined ? LOOK_INTERVAL_MS : backoffMs(failures, LOOK_AGAIN, random());
      await clock.sleep(pauseMs, signal).catch(() => {});
      if (signal.aborted) return;
    }
  }

  async #whyNotNow(dispatcher: Dispatcher, duties: DispatcherDuties): Promise<string | undefined> {
    try {
      const signal = this.#stopping.signal;
      const { statuses } = await dispatcher.health.list({}, { signal, deadlineMs: LOOK_TIMEOUT_MS });
      if (!signal.aborted) this.#noteAlerts(dispatcher, alertsIn(statuses));
      if (statuses[""]?.status !== "SERVING") return "the dispatcher reports that it does not serve";
      // A dispatcher that was unreachable may have restarted and forgotten its director.
      if (this.#whyNot.has(dispatcher)) await duties.fence(dispatcher);
      return undefined;
    } catch (error) {
      return messageOf(error);
    }
  }

  /** Makes a dispatcher's alerts one of this director, because operators ask the director what needs attention. */
  #noteAlerts(dispatcher: Dispatcher, names: readonly string[]): void {
    const { address } = dispatcher;
    const told = names.join(", ");
    if (told === (this.#alerts.get(dispatcher) ?? "")) return;
    const { log } = this.#options;
    this.#alerts.set(dispatcher, told);
    if (told === "") log.info({ alertEnded: "dispatcher_warns", alertOf: address }, "dispatcher no longer warns");
    else
      log.warn(
        { alert: "dispatcher_warns", alertOf: address, names },
        `the cpi-dispatcher at ${address} warns of ${names.map((name) => `${name} (${knownAlert(name).text})`).join(", ")}`,
      );
  }

  #note(dispatcher: Dispatcher, why: string | undefined, duties: DispatcherDuties): void {
    const { readiness, log } = this.#options;
    const { address } = dispatcher;
    const wasUsed = !this.#whyNot.has(dispatcher);
    if (why === undefined) this.#whyNot.delete(dispatcher);
    else this.#whyNot.set(dispatcher, why);
    if (why === undefined && !wasUsed) {
      log.info({ dispatcher: address }, "dispatcher connected");
      duties.obeys(dispatcher);
    }
    // With a single dispatcher, readiness already reports the disconnect.
    if (why !== undefined && wasUsed && this.all.length > 1)
      log.warn({ dispatcher: address, why }, "dispatcher disconnected");
    if (this.obeying.length > 0) readiness.met("dispatcher");
    else readiness.missing("dispatcher", this.#whyNone());
  }

  #whyNone(): string {
    return [...this.#whyNot]
      .map(([{ address }, why]) => (why.includes(address) ? why : `${address}: ${why}`))
      .join("; ");
  }
}
