import { RegisterAgentRequest, type RegisterAgentResponse } from "@diskmesh/api/internal";
import { type DeviceId, type Logger, messageOf, retryDelayMs } from "@diskmesh/domain";
import type { AgentContext } from "../calls/context.js";
import { parseRegistrationAnswer } from "../calls/registration-wire.js";
import { encodeRefusedFile, encodeReportedDevice } from "../calls/wire.js";
import type { UnreportedError } from "../devices/hardware-errors.js";
import { highestNumbers } from "../model/highest-numbers.js";
import type { AgentMemory } from "../model/memory.js";
import { decideRegistration } from "../model/registration.js";
import { highestSession } from "../model/sessions.js";
import { Heartbeats, healthTold, type Registered, type RegistrationOptions, warningOf } from "./heartbeats.js";

/**
 * Keeps the agent registered until the signal aborts: registers, sends heartbeats, and registers again on demand. While
 * a later registration is delayed, fails or is refused, heartbeats of the former one continue, because the host is
 * alive.
 */
export async function keepRegistered(options: RegistrationOptions): Promise<void> {
  const { context, random, readiness, signal } = options;
  const heartbeats = new Heartbeats(options);
  signal.addEventListener("abort", heartbeats.observe(), { once: true });
  const refusals = new Refusals(context.log);
  let registrationNumber = 0;
  for (let attempts = 0; !signal.aborted; attempts += 1) {
    let pauseMs: number;
    try {
      heartbeats.begin(await heartbeats.during(register(options, ++registrationNumber, refusals)));
      attempts = 0;
      readiness.met("registered");
      pauseMs = await heartbeats.sendUntilDue();
    } catch (error) {
      if (signal.aborted) return;
      context.log.warn({ error: messageOf(error) }, "agent registration failed, retrying");
      readiness.missing("registered", messageOf(error));
      pauseMs = retryDelayMs(error, attempts, context.limits.registration, random());
    }
    if (pauseMs > 0) await heartbeats.pause(pauseMs);
  }
}

/** Registers once, and applies the answer if it is well formed. */
async function register(
  { context, client, signal }: RegistrationOptions,
  registrationNumber: number,
  refusals: Refusals,
): Promise<Registered> {
  const { limits, devices, ledger, orders } = context;
  await orders.labels.look();
  context.registrationDue.reset();
  // The registration reports orders as obeyed, so these must be durable. An agent that cannot write its cache reports
  // that as a warning, and reports the memory that it stored last.
  const memory = await ledger.durable().catch(() => ledger.stored);
  const unreported = devices.hardwareErrors.unreported(memory);
  const request = { ...describeAgent(context, memory, unreported), registrationNumber };
  const answer = await client.registerAgent(request, { signal, deadlineMs: limits.registerTimeoutMs });
  devices.hardwareErrors.markReported(unreported);
  refusals.tell(answer.unknownDevices);
  await applyAnswer(context, memory, answer);
  return { heartbeatIntervalMs: answer.heartbeatIntervalMs, told: healthTold(request.devices) };
}

/** Returns the state of the agent as a registration reports it. */
export function describeAgent(
  { bootId, config, devices, exports, ledger, orders, registrationDue, checks }: AgentContext,
  memory: AgentMemory,
  unreported: ReadonlyMap<DeviceId, UnreportedError>,
): RegisterAgentRequest {
  return RegisterAgentRequest.fromPartial({
    hostId: config.hostId,
    address: registrationDue.contact.address,
    az: config.az,
    rack: config.rack,
    bootId,
    devices: [
      ...devices.all().map((device) => {
        const found = { unreported: unreported.get(device.id), label: orders.labels.of(device) };
        return encodeReportedDevice(device, memory, found);
      }),
      ...checks.rescan.refused.map((file) => encodeRefusedFile(file, memory)),
    ],
    exports: exports.list(),
    ...highestNumbers(memory),
    knowsRuns: true,
    warning: warningOf(ledger),
  });
}

/** Applies the answer to a registration. `reported` is the memory that the registration contained. */
async function applyAnswer(
  { orders, devices, ledger, log, registrationDue }: AgentContext,
  reported: AgentMemory,
  answer: RegisterAgentResponse,
): Promise<void> {
  const before = ledger.memory;
  const { memory, decisions } = decideRegistration(before, devices, parseRegistrationAnswer(answer));
  ledger.remember(memory);
  await ledger.durable();
  for (const device of devices.all())
    if (highestSession(before, device.id) === 0) device.granted.grantAll(memory.devices.get(device.id)?.sessions ?? []);
  const { tabletId, incarnation, tabletGeneration } = memory;
  if (before.incarnation !== incarnation && before.tabletId !== "") {
    const former = { former_tablet_id: before.tabletId, former_incarnation: before.incarnation };
    log.warn({ tabletId, incarnation, ...former }, "registry incarnation changed");
    // Declares another registration due if the former registry opened sessions while the answer was on its way, because
    // the new registry must learn their numbers.
    if (before.devices !== reported.devices) registrationDue.declare();
  }
  // Declares another registration due when an order started an export during this registration, because only a
  // registration reports exports.
  if (before.exports !== reported.exports) registrationDue.declare();
  const outcomes = await Promise.all(decisions.map(({ order, verdict }) => orders.attach.run(order, verdict)));
  for (const { deviceId, outcome, message: text } of outcomes)
    if (outcome !== "done" && outcome !== "already")
      log.warn({ deviceId, outcome, reason: text }, "device order from registration failed");
  const allowedDevices = answer.allowedDevices.length;
  const unknownDevices = answer.unknownDevices.length;
  log.info({ tabletGeneration, allowedDevices, unknownDevices }, "agent registered");
}

const MAX_REASONS = 16;
const MAX_NAMED = 16;

/** Logs which devices the registry refuses, and why, whenever the list changes. */
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
      this.#log.warn({ devices: deviceIds.length, first, reason }, "devices refused by the registry");
    }
  }
}
