import type { AgentRegistrationServiceService, DeviceHealth } from "@diskmesh/api/registry";
import { AbortedError, type BackoffLimits, messageOf, NotFoundError, retryDelayMs } from "@diskmesh/domain";
import type { Client } from "@diskmesh/rpc";
import type { AgentContext } from "../context.js";
import { decideRegistration } from "../model/registration.js";
import { encodeHealth, encodeReportedDevice, parseRegistrationAnswer } from "../wire.js";

export interface RegistrationOptions {
  readonly context: AgentContext;
  readonly client: Client<typeof AgentRegistrationServiceService>;
  /** Where other hosts reach this agent. */
  readonly address: string;
  readonly backoff: BackoffLimits;
  readonly random: () => number;
  /** Whoever aborts it declares a registration due as well: nothing waits for both. */
  readonly signal: AbortSignal;
}

/** Keeps the agent registered until the signal aborts: registers, sends heartbeats, registers again when told to. */
export async function keepRegistered(options: RegistrationOptions): Promise<void> {
  const { context, backoff, random, signal } = options;
  let registrationNumber = 0;
  for (let attempts = 0; !signal.aborted; attempts += 1) {
    let failure: unknown;
    try {
      const registered = await register(options, ++registrationNumber);
      attempts = 0;
      await sendHeartbeats(options, registered);
    } catch (error) {
      if (signal.aborted) return;
      failure = error;
      context.log.warn({ error: messageOf(error) }, "the agent is not registered and tries again");
    }
    await context.clock.sleep(retryDelayMs(failure, attempts, backoff, random()), signal).catch(() => undefined);
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
): Promise<Registered> {
  context.registrationDue.reset();
  const { attachOrders, bootId, config, devices, exports, ledger, log } = context;
  // What is reported as obeyed must be durable.
  await ledger.durable();
  const reported = devices.all().map((device) => encodeReportedDevice(device, ledger.memory));
  const message = await client.registerAgent(
    {
      hostId: config.hostId,
      address,
      az: config.az,
      rack: config.rack,
      bootId,
      devices: reported,
      exports: exports.list(),
      tabletId: ledger.memory.tabletId,
      highestTabletGeneration: ledger.memory.tabletGeneration,
      registrationNumber,
    },
    { signal, deadlineMs: config.timeouts.registerTimeoutMs },
  );
  const { memory, decisions } = decideRegistration(ledger.memory, devices, parseRegistrationAnswer(message));
  ledger.remember(memory);
  await ledger.durable();
  const outcomes = await Promise.all(
    decisions.map(({ order, verdict }) => attachOrders.run(order, verdict, undefined)),
  );
  for (const { deviceId, outcome, message: text } of outcomes)
    if (outcome !== "done" && outcome !== "already")
      log.warn({ device_id: deviceId, outcome, reason: text }, "a device is not as the registration wants it");
  const { tabletGeneration } = ledger.memory;
  const allowed = message.allowedDevices.length;
  const unknown = message.unknownDevices.length;
  log.info({ tablet_generation: tabletGeneration, allowed, unknown }, "registered");
  const told = new Map(reported.map((device) => [device.deviceId, textOf(device)]));
  return { heartbeatIntervalMs: message.heartbeatIntervalMs, told };
}

const textOf = ({ health, healthMessage }: Pick<DeviceHealth, "health" | "healthMessage">): string =>
  `${health} ${healthMessage}`;

/** Returns when the registry wants a new registration, or is to be told of devices that changed. */
async function sendHeartbeats(
  { context, client, random, signal }: RegistrationOptions,
  { heartbeatIntervalMs, told }: Registered,
): Promise<void> {
  const { bootId, clock, config, devices, log, registrationDue } = context;
  const due = registrationDue.signal;
  let failures = 0;
  for (;;) {
    // Spread, so that agents that registered together do not beat together.
    const waitMs = Math.max(50, heartbeatIntervalMs * (0.9 + 0.2 * random()));
    await clock.sleep(waitMs, due).catch(() => undefined);
    signal.throwIfAborted();
    if (due.aborted) return;
    const changed: DeviceHealth[] = devices
      .all()
      .map((device) => ({ deviceId: device.id, ...encodeHealth(device) }))
      .filter((health) => told.get(health.deviceId) !== textOf(health));
    try {
      const request = { hostId: config.hostId, bootId, changed };
      await client.heartbeat(request, { signal, deadlineMs: config.timeouts.heartbeatTimeoutMs });
      for (const health of changed) told.set(health.deviceId, textOf(health));
      failures = 0;
    } catch (error) {
      if (signal.aborted) throw error;
      failures += 1;
      if (failures === 1) log.warn({ error: messageOf(error) }, "a heartbeat failed");
      if (error instanceof NotFoundError || error instanceof AbortedError) return;
    }
  }
}
