import type { AgentRegistrationServiceDefinition, DeviceHealth, MissingNeed } from "@diskmesh/api/internal";
import {
  AbortedError,
  type DeviceId,
  InvalidStateError,
  type Logger,
  messageOf,
  NotFoundError,
  OutdatedError,
  retryDelayMs,
} from "@diskmesh/domain";
import { observe } from "@diskmesh/metrics";
import type { Client } from "@diskmesh/rpc";
import type { Clock, Readiness, ReadinessReport } from "@diskmesh/service";
import type { IoCounters } from "../base/io-counters.js";
import { agentMetrics } from "../base/metrics.js";
import type { Ledger } from "../cache/ledger.js";
import type { AgentContext } from "../calls/context.js";
import { encodeHealth } from "../calls/wire.js";
import type { UnreportedError } from "../devices/hardware-errors.js";
import { encodeServed } from "../exports/queue-wire.js";
import { highestNumbers } from "../model/highest-numbers.js";

export interface RegistrationOptions {
  readonly context: AgentContext;
  readonly client: Client<typeof AgentRegistrationServiceDefinition>;
  readonly clock: Clock;
  readonly random: () => number;
  /** Readiness of the service: set while the registry accepts the agent's heartbeats. */
  readonly readiness: Pick<Readiness, "met" | "missing"> & { report(): Pick<ReadinessReport, "needs" | "alerts"> };
  /** I/O of the disks that the host serves. */
  readonly io: Pick<IoCounters, "totals" | "diskIo">;
  /**
   * Aborts when the agent stops. The code that aborts it also declares a registration due, which ends every wait for a
   * due registration.
   */
  readonly signal: AbortSignal;
}

/** A registration that the registry has accepted. */
export interface Registered {
  readonly heartbeatIntervalMs: number;
  /** Health of each device as last reported. */
  readonly told: Map<string, string>;
}

/** Returns the health of the devices as the registry knows it after this report. */
export function healthTold(devices: readonly DeviceHealth[]): Map<string, string> {
  return new Map(devices.map((device) => [device.deviceId, textOf(device)]));
}

/** Returns why nothing new may be placed on the host; empty for none. */
export function warningOf({ problem }: Ledger): string {
  return problem === undefined ? "" : `its agent cannot accept orders: ${problem}`;
}

/**
 * Returns the agent's missing needs and alerts. A heartbeat itself shows whether the agent is registered. Failed drivers are no
 * part of the readiness: the agent serves disks without them.
 */
function missingNeedsOf(
  { needs, alerts }: Pick<ReadinessReport, "needs" | "alerts">,
  { context: { vendors }, clock }: Pick<RegistrationOptions, "context" | "clock">,
): MissingNeed[] {
  const drivers = vendors.failed();
  const missing = [...needs].flatMap(([need, { met, why, sinceMs }]) =>
    met === false && need !== "registered" ? [{ need: need as string, why, sinceMs, isAlert: false }] : [],
  );
  if (drivers !== undefined) missing.push({ need: "drivers", ...drivers, isAlert: false });
  const warned = [...alerts].map(([need, alert]) => ({ need, ...alert, isAlert: true }));
  return [...missing, ...warned]
    .slice(0, MAX_NEEDS)
    .map(({ sinceMs, ...rest }) => ({ ...rest, ageMs: Math.max(0, clock.nowMs() - sinceMs) }));
}

/** Maximum that a registry takes. */
const MAX_NEEDS = 16;

const textOf = ({ health, healthMessage }: Pick<DeviceHealth, "health" | "healthMessage">): string =>
  `${health} ${healthMessage}`;

/** Sends the heartbeats of one agent start, as long as the registry knows that start. */
export class Heartbeats {
  readonly #options: RegistrationOptions;
  readonly #failures: HeartbeatFailures;
  #registered: Registered | undefined;
  #acceptedAtMs: number | undefined;
  #nextAtMs = 0;

  constructor(options: RegistrationOptions) {
    this.#options = options;
    this.#failures = new HeartbeatFailures(options.context.log);
  }

  begin(registered: Registered): void {
    this.#registered = registered;
    this.#noteAccepted(registered);
    this.#schedule(registered);
  }

  /** Reports the registration's age when metrics are read; returns a function that stops this. */
  observe(): () => void {
    const { clock } = this.#options;
    return observe(agentMetrics.registrationAge, (say) => {
      if (this.#acceptedAtMs !== undefined) say((clock.monotonicMs() - this.#acceptedAtMs) / 1_000);
    });
  }

  /**
   * Sends heartbeats until the registry demands a new registration, or changed devices require one. Returns the delay
   * before the registration. It is 0 when the registry demands one, because heartbeats are already spread over their
   * interval.
   */
  async sendUntilDue(): Promise<number> {
    const { context, random, signal, readiness } = this.#options;
    const wantedInMs = await this.#send(context.registrationDue.signal, {
      tellsChanges: true,
      answered: () => readiness.met("registered"),
      failed: (error) => readiness.missing("registered", `a heartbeat failed: ${messageOf(error)}`),
    });
    signal.throwIfAborted();
    return wantedInMs ?? retryDelayMs(undefined, 0, context.limits.registration, random());
  }

  /**
   * Sends heartbeats without changes while a registration is in progress. Only the registration reports changes,
   * because two messages may arrive in the wrong order.
   */
  async during<T>(registration: Promise<T>): Promise<T> {
    const over = new AbortController();
    void this.#send(over.signal, { tellsChanges: false });
    try {
      return await registration;
    } finally {
      over.abort();
    }
  }

  /** Waits before the next registration, while heartbeats continue. */
  async pause(pauseMs: number): Promise<void> {
    const { clock, signal } = this.#options;
    const over = new AbortController();
    const pause = clock.sleep(pauseMs, signal).catch(() => undefined);
    await Promise.all([pause.finally(() => over.abort()), this.#send(over.signal, { tellsChanges: true })]);
  }

  /**
   * Returns the delay of a registration that the registry demands; undefined when a signal has aborted, or nothing is
   * registered.
   */
  async #send(
    until: AbortSignal,
    how: {
      readonly tellsChanges: boolean;
      readonly answered?: () => void;
      readonly failed?: (error: unknown) => void;
    },
  ): Promise<number | undefined> {
    const { clock, signal } = this.#options;
    const registered = this.#registered;
    while (registered !== undefined && registered === this.#registered) {
      await clock.sleep(Math.max(0, this.#nextAtMs - clock.monotonicMs()), until).catch(() => undefined);
      if (until.aborted || signal.aborted) return undefined;
      this.#schedule(registered);
      try {
        await this.#beat(registered, how.tellsChanges);
        this.#failures.ended();
        how.answered?.();
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

  /**
   * Schedules the next heartbeat at a random time around the interval, so that agents that registered together do not
   * send heartbeats together.
   */
  #schedule({ heartbeatIntervalMs }: Registered): void {
    const { clock, random } = this.#options;
    this.#nextAtMs = clock.monotonicMs() + Math.max(50, heartbeatIntervalMs * (0.9 + 0.2 * random()));
  }

  #noteAccepted({ heartbeatIntervalMs }: Registered): void {
    const { clock, context } = this.#options;
    this.#acceptedAtMs = clock.monotonicMs();
    context.registrationDue.contact.noteHeard(heartbeatIntervalMs);
  }

  /** Sends a heartbeat. */
  async #beat(registered: Registered, tellsChanges: boolean): Promise<void> {
    const { clock, context, client, io, signal, readiness } = this.#options;
    const { bootId, config, limits, devices, ledger } = context;
    const { told } = registered;
    const changed = devices
      .all()
      .map((device) => ({ deviceId: device.id, ...encodeHealth(device.problemNow) }))
      .filter((health) => tellsChanges && told.get(health.deviceId) !== textOf(health));
    // Sends numbers that may not be on disk yet. A registry issued each of them, so a registry that counts on above
    // them is correct even if the agent forgets them. Because the heartbeat waits for no write, it continues when the
    // agent's disk is full. The incarnation sent is already durable: registration stored it.
    const failed = tellsChanges
      ? devices.hardwareErrors.unreported(ledger.memory)
      : new Map<DeviceId, UnreportedError>();
    const request = {
      hostId: config.hostId,
      bootId,
      changed,
      hardwareErrors: [...failed].map(([deviceId, { message, ageMs }]) => ({ deviceId, message, ageMs })),
      ...highestNumbers(ledger.memory),
      warning: warningOf(ledger),
      io: io.totals(),
      disks: context.exports.served().map(({ diskId, ...served }) => ({
        diskId,
        io: { ...io.diskIo(diskId), ...encodeServed(served) },
      })),
      diskProblems: [...context.exports.problems()],
      missingNeeds: missingNeedsOf(readiness.report(), this.#options),
      sentAt: new Date(clock.nowMs()),
    };
    await client.heartbeat(request, { signal, deadlineMs: limits.heartbeatTimeoutMs });
    this.#noteAccepted(registered);
    devices.hardwareErrors.markReported(failed);
    for (const health of changed) told.set(health.deviceId, textOf(health));
  }
}

const MAX_REASONS = 16;

/** Logs why heartbeats fail, each reason once, because a cause that only an operator can fix may last for days. */
class HeartbeatFailures {
  readonly #log: Logger;
  readonly #told = new Set<string>();

  constructor(log: Logger) {
    this.#log = log;
  }

  tell(error: unknown): void {
    const text = messageOf(error);
    // Failed connections are logged under one text, because their messages differ each time.
    const refused = error instanceof InvalidStateError || error instanceof OutdatedError;
    const reason = refused || !(error instanceof Error) ? text : error.name;
    if (this.#told.has(reason) || this.#told.size >= MAX_REASONS) return;
    this.#told.add(reason);
    this.#log.warn({ error: text }, "registry heartbeat failed");
  }

  ended(): void {
    this.#told.clear();
  }
}
