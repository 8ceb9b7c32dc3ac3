import type { AgentRegistrationServiceDefinition, DeviceHealth } from "@diskmesh/api/internal";
import {
  AbortedError,
  type BackoffLimits,
  type DeviceId,
  InvalidStateError,
  type Logger,
  messageOf,
  NotFoundError,
  OutdatedError,
  retryDelayMs,
} from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { Readiness } from "@diskmesh/service";
import type { Ledger } from "../cache/ledger.js";
import type { AgentContext } from "../context.js";
import type { UntoldError } from "../devices/hardware-errors.js";
import { highestNumbers } from "../model/highest-numbers.js";
import { encodeHealth } from "../wire.js";

export interface RegistrationOptions {
  readonly context: AgentContext;
  readonly client: Client<typeof AgentRegistrationServiceDefinition>;
  /** Where other hosts reach this agent. */
  readonly address: string;
  readonly backoff: BackoffLimits;
  readonly random: () => number;
  /** Is told whether the registry knows of the agent, and hears from it. */
  readonly readiness: Pick<Readiness, "met" | "missing">;
  /** Whoever aborts it declares a registration due as well: nothing waits for both. */
  readonly signal: AbortSignal;
}

/** A registration that the registry has taken in. */
export interface Registered {
  readonly heartbeatIntervalMs: number;
  /** What the registry was told of each device's health. */
  readonly told: Map<string, string>;
}

/** What the registry knows of devices' health after it was told this. */
export function healthTold(devices: readonly DeviceHealth[]): Map<string, string> {
  return new Map(devices.map((device) => [device.deviceId, textOf(device)]));
}

/** What keeps new things away from the host; empty when nothing does. */
export function warningOf({ problem }: Ledger): string {
  return problem === undefined ? "" : `its agent can take no order: ${problem}`;
}

const textOf = ({ health, healthMessage }: Pick<DeviceHealth, "health" | "healthMessage">): string =>
  `${health} ${healthMessage}`;

/** The heartbeats of one start of the agent. They are sent while the registry knows of a registration of that start. */
export class Heartbeats {
  readonly #options: RegistrationOptions;
  readonly #failures: HeartbeatFailures;
  #registered: Registered | undefined;
  #nextAtMs = 0;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#failures = new HeartbeatFailures(options.context.log);
  }

  begin(registered: Registered): void {
    this.#registered = registered;
    this.#schedule(registered);
  }

  /**
   * Returns when the registry wants a new registration, or is to be told of devices that changed, with how long to wait
   * before it. One that the registry wants comes at once: heartbeats are its pace, and are spread over their interval.
   */
  async sendUntilDue(): Promise<number> {
    const { context, backoff, random, signal, readiness } = this.#options;
    const wantedInMs = await this.#send(context.registrationDue.signal, {
      tellsChanges: true,
      answered: () => readiness.met("registered"),
      failed: (error) => readiness.missing("registered", `a heartbeat failed: ${messageOf(error)}`),
    });
    signal.throwIfAborted();
    return wantedInMs ?? retryDelayMs(undefined, 0, backoff, random());
  }

  /** Sends signs of life while a registration is under way, which tells all else: of two messages the older may come last. */
  async during<T>(registration: Promise<T>): Promise<T> {
    const over = new AbortController();
    void this.#send(over.signal, { tellsChanges: false });
    try {
      return await registration;
    } finally {
      over.abort();
    }
  }

  /** The wait before the next registration. */
  async pause(pauseMs: number): Promise<void> {
    const { context, signal } = this.#options;
    const over = new AbortController();
    const pause = context.clock.sleep(pauseMs, signal).catch(() => undefined);
    await Promise.all([pause.finally(() => over.abort()), this.#send(over.signal, { tellsChanges: true })]);
  }

  /** Returns how soon the registry wants a registration; undefined when a signal has aborted, or nothing is registered. */
  async #send(
    until: AbortSignal,
    how: {
      readonly tellsChanges: boolean;
      readonly answered?: () => void;
      readonly failed?: (error: unknown) => void;
    },
  ): Promise<number | undefined> {
    const { context, signal } = this.#options;
    const { clock } = context;
    const registered = this.#registered;
    while (registered !== undefined && registered === this.#registered) {
      await clock.sleep(Math.max(0, this.#nextAtMs - clock.monotonicMs()), until).catch(() => undefined);
      if (until.aborted || signal.aborted) return undefined;
      this.#schedule(registered);
      try {
        const incarnation = await this.#beat(registered, how.tellsChanges);
        this.#failures.ended();
        how.answered?.();
        // The registry is of a later release than the one that it registered with: only a registration gives it.
        if (context.ledger.memory.incarnation === "" && incarnation !== "") return 0;
      } catch (error) {
        if (signal.aborted) return undefined;
        this.#failures.tell(error);
        how.failed?.(error);
        if (!(error instanceof NotFoundError || error instanceof AbortedError)) continue;
        if (this.#registered === registered) this.#registered = undefined;
        return error.retryAfterMs ?? 0;
      }
    }
    return undefined;
  }

  /** Spread, so that agents that registered together do not beat together. */
  #schedule({ heartbeatIntervalMs }: Registered): void {
    const { context, random } = this.#options;
    this.#nextAtMs = context.clock.monotonicMs() + Math.max(50, heartbeatIntervalMs * (0.9 + 0.2 * random()));
  }

  /** Returns the incarnation of the registry that answered. */
  async #beat({ told }: Registered, tellsChanges: boolean): Promise<string> {
    const { context, client, signal } = this.#options;
    const { bootId, config, limits, devices, ledger } = context;
    const changed = devices
      .all()
      .map((device) => ({ deviceId: device.id, ...encodeHealth(device.problemNow) }))
      .filter((health) => tellsChanges && told.get(health.deviceId) !== textOf(health));
    // The numbers may not be durable yet, and need not be: each was given by a registry, and one that goes on above
    // such a number is never wrong. A full disk makes no host silent. Whom the agent obeys is durable since
    // it registered.
    const failed = tellsChanges ? devices.hardwareErrors.untold(ledger.memory) : new Map<DeviceId, UntoldError>();
    const request = {
      hostId: config.hostId,
      bootId,
      changed,
      hardwareErrors: [...failed].map(([deviceId, { message, ageMs }]) => ({ deviceId, message, ageMs })),
      ...highestNumbers(ledger.memory),
      warning: warningOf(ledger),
    };
    const answer = await client.heartbeat(request, { signal, deadlineMs: limits.heartbeatTimeoutMs });
    devices.hardwareErrors.told(failed);
    for (const health of changed) told.set(health.deviceId, textOf(health));
    return answer.incarnation;
  }
}

const MAX_REASONS = 16;

/** Logs why heartbeats fail, each reason once: what an operator must decide may take days. */
class HeartbeatFailures {
  readonly #log: Logger;
  readonly #told = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  tell(error: unknown): void {
    const text = messageOf(error);
    // Of calls that did not come through the texts differ each time.
    const refused = error instanceof InvalidStateError || error instanceof OutdatedError;
    const reason = refused || !(error instanceof Error) ? text : error.name;
    if (this.#told.has(reason) || this.#told.size >= MAX_REASONS) return;
    this.#told.add(reason);
    this.#log.warn({ error: text }, "a heartbeat failed");
  }

  ended(): void {
    this.#told.clear();
  }
}
