import type { AgentRegistrationServiceDefinition, DeviceHealth, RegisterAgentResponse } from "@diskmesh/api/registry";
import {
  AbortedError,
  type BackoffLimits,
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
import { highestNumbers } from "../model/highest-numbers.js";
import type { AgentMemory } from "../model/memory.js";
import { decideRegistration } from "../model/registration.js";
import { encodeHealth, encodeReportedDevice, parseRegistrationAnswer } from "../wire.js";

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

/** Keeps the agent registered until the signal aborts: registers, sends heartbeats, registers again when told to. */
export async function keepRegistered(options: RegistrationOptions): Promise<void> {
  const { context, backoff, random, readiness, signal } = options;
  const failures = new HeartbeatFailures(context.log);
  const refusals = new Refusals(context.log);
  let registrationNumber = 0;
  for (let attempts = 0; !signal.aborted; attempts += 1) {
    let pauseMs: number;
    try {
      const registered = await register(options, ++registrationNumber, refusals);
      attempts = 0;
      readiness.met("registered");
      pauseMs = await sendHeartbeats(options, registered, failures);
    } catch (error) {
      if (signal.aborted) return;
      context.log.warn({ error: messageOf(error) }, "the agent is not registered and tries again");
      readiness.missing("registered", messageOf(error));
      pauseMs = retryDelayMs(error, attempts, backoff, random());
    }
    if (pauseMs > 0) await context.clock.sleep(pauseMs, signal).catch(() => undefined);
  }
}

interface Registered {
  readonly heartbeatIntervalMs: number;
  /** What the registry was told of each device's health. */
  readonly told: Map<string, string>;
}

/** Registers once and applies the answer. Nothing of it counts unless the call succeeded and it is well formed. */
async function register(
  { context, client, address, signal }: RegistrationOptions,
  registrationNumber: number,
  refusals: Refusals,
): Promise<Registered> {
  context.registrationDue.reset();
  const { bootId, config, devices, exports, ledger } = context;
  // What is reported as obeyed must be durable. Who cannot write says so, and what it remembered before.
  const memory = await ledger.durable().catch(() => ledger.stored);
  const untold = devices.hardwareErrors.untold(memory);
  const reported = devices.all().map((device) => encodeReportedDevice(device, memory, untold.get(device.id)));
  const answer = await client.registerAgent(
    {
      hostId: config.hostId,
      address,
      az: config.az,
      rack: config.rack,
      bootId,
      devices: reported,
      exports: exports.list(),
      ...highestNumbers(memory),
      registrationNumber,
      warning: warningOf(ledger),
    },
    { signal, deadlineMs: config.timeouts.registerTimeoutMs },
  );
  devices.hardwareErrors.told(untold);
  refusals.tell(answer.unknownDevices);
  await applyAnswer(context, memory, answer);
  const told = new Map(reported.map((device) => [device.deviceId, textOf(device)]));
  return { heartbeatIntervalMs: answer.heartbeatIntervalMs, told };
}

/** `reported` is what the answer was given for. */
async function applyAnswer(
  { attachOrders, devices, ledger, log, registrationDue }: AgentContext,
  reported: AgentMemory,
  answer: RegisterAgentResponse,
): Promise<void> {
  const before = ledger.memory;
  const { memory, decisions } = decideRegistration(before, devices, parseRegistrationAnswer(answer));
  ledger.remember(memory);
  await ledger.durable();
  const { tabletId, incarnation, tabletGeneration } = memory;
  if (before.incarnation !== incarnation && before.tabletId !== "") {
    const former = { former_tablet_id: before.tabletId, former_incarnation: before.incarnation };
    log.warn({ tabletId, incarnation, ...former }, "the agent obeys another incarnation from now on");
    // Sessions that the former one gave while the answer was on its way are news to this one.
    if (before.devices !== reported.devices) registrationDue.declare();
  }
  // An export of an order that came late may be wanted no more, and nobody but the agent knows of it.
  if (before.exports !== reported.exports) registrationDue.declare();
  const outcomes = await Promise.all(decisions.map(({ order, verdict }) => attachOrders.run(order, verdict)));
  for (const { deviceId, outcome, message: text } of outcomes)
    if (outcome !== "done" && outcome !== "already")
      log.warn({ deviceId, outcome, reason: text }, "a device is not as the registration wants it");
  const allowed = answer.allowedDevices.length;
  const unknown = answer.unknownDevices.length;
  log.info({ tabletGeneration, allowed, unknown }, "registered");
}

/** What keeps new things away from the host; empty when nothing does. */
function warningOf({ problem }: Ledger): string {
  return problem === undefined ? "" : `its agent can take no order: ${problem}`;
}

const textOf = ({ health, healthMessage }: Pick<DeviceHealth, "health" | "healthMessage">): string =>
  `${health} ${healthMessage}`;

/**
 * Returns when the registry wants a new registration, or is to be told of devices that changed, with how long to wait
 * before it. One that the registry wants comes at once: heartbeats are its pace, and are spread over their interval.
 */
async function sendHeartbeats(
  { context, client, backoff, random, readiness, signal }: RegistrationOptions,
  { heartbeatIntervalMs, told }: Registered,
  failures: HeartbeatFailures,
): Promise<number> {
  const { bootId, clock, config, devices, ledger, registrationDue } = context;
  const due = registrationDue.signal;
  for (;;) {
    // Spread, so that agents that registered together do not beat together.
    const waitMs = Math.max(50, heartbeatIntervalMs * (0.9 + 0.2 * random()));
    await clock.sleep(waitMs, due).catch(() => undefined);
    signal.throwIfAborted();
    if (due.aborted) return retryDelayMs(undefined, 0, backoff, random());
    const changed = devices
      .all()
      .map((device) => ({ deviceId: device.id, ...encodeHealth(device.problemNow) }))
      .filter((health) => told.get(health.deviceId) !== textOf(health));
    try {
      // The numbers may not be durable yet, and need not be: each was given by a registry, and one that goes on above
      // such a number is never wrong. A full disk makes no host silent. Whom the agent obeys is durable since
      // it registered.
      const failed = devices.hardwareErrors.untold(ledger.memory);
      const request = {
        hostId: config.hostId,
        bootId,
        changed,
        hardwareErrors: [...failed].map(([deviceId, { message, ageMs }]) => ({ deviceId, message, ageMs })),
        ...highestNumbers(ledger.memory),
        warning: warningOf(ledger),
      };
      const answer = await client.heartbeat(request, { signal, deadlineMs: config.timeouts.heartbeatTimeoutMs });
      devices.hardwareErrors.told(failed);
      for (const health of changed) told.set(health.deviceId, textOf(health));
      failures.ended();
      readiness.met("registered");
      // The registry is of a later release than the one that it registered with: only a registration gives it.
      if (ledger.memory.incarnation === "" && answer.incarnation !== "") return 0;
    } catch (error) {
      if (signal.aborted) throw error;
      failures.tell(error);
      readiness.missing("registered", `a heartbeat failed: ${messageOf(error)}`);
      if (error instanceof NotFoundError || error instanceof AbortedError) return error.retryAfterMs ?? 0;
    }
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

const MAX_NAMED = 16;

/** Logs which devices the registry does not want held, and why: again only when that is not what it said last. */
class Refusals {
  readonly #log: Logger;
  #told = "";

  constructor(log: Logger) {
    this.#log = log;
  }

  tell(refused: readonly { readonly deviceId: string; readonly reason: string }[]): void {
    const byReason = new Map<string, string[]>();
    for (const { deviceId, reason } of refused) {
      const sameReason = byReason.get(reason);
      if (sameReason === undefined) byReason.set(reason, [deviceId]);
      else sameReason.push(deviceId);
    }
    const text = JSON.stringify([...byReason]);
    if (text === this.#told) return;
    this.#told = text;
    for (const [reason, deviceIds] of [...byReason].slice(0, MAX_REASONS)) {
      const first = deviceIds.slice(0, MAX_NAMED);
      this.#log.warn({ devices: deviceIds.length, first, reason }, "the registry wants devices let go of");
    }
  }
}
