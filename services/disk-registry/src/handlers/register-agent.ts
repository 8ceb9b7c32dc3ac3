import type { RegisterAgentRequest, RegisterAgentResponse } from "@diskmesh/api/registry";
import { type HostId, InvalidStateError, parseHostId } from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { requireOwnHost } from "../agent-identity.js";
import type { Context } from "../context.js";
import { hostLimits } from "../limits.js";
import { lastValue } from "../model/counters.js";
import {
  hasSeenLaterLeader,
  noteRegistration,
  type Registration,
  raiseCounters,
  registerAgent as register,
  requireInOrder,
  requireNotReplaced,
  requireOwnAgent,
} from "../model/registration.js";
import { parseRegistration } from "../registration-request.js";
import { stampedDeviceMessage } from "../wire.js";

export async function registerAgent(
  context: Context,
  request: RegisterAgentRequest,
  call: CallContext,
): Promise<RegisterAgentResponse> {
  const { tablet, leader, clock, config, liveness, workers } = context;
  const hostId = parseHostId(request.hostId);
  requireOwnHost(call, hostId);
  await context.registrationTurns.next();
  // Who has given up meanwhile comes again: nothing is done for the call that nobody waits for.
  call.signal.throwIfAborted();
  const registration = parseRegistration(request, hostId, config.limits);
  requireOwnAgent(registration, leader);
  if (hasSeenLaterLeader(registration, leader)) await refuseOvertaken(context, registration);
  const limits = hostLimits(config);
  const isHeard = () => liveness.silentForMs(hostId) <= config.heartbeat.timeoutMs;
  const answer = await tablet.transact((tx) => {
    requireNotReplaced(tx, registration, isHeard);
    requireInOrder(context.lastRegistrations, registration);
    const taken = register(tx, registration, leader, limits, clock.nowMs());
    noteRegistration(context.lastRegistrations, registration);
    return taken;
  });
  liveness.hear(hostId);
  workers.wakeHost(hostId);
  for (const stray of answer.strayExports) workers.wakeUnexport({ hostId, ...stray });
  return {
    tabletId: leader.tabletId,
    tabletGeneration: leader.tabletGeneration,
    allowedDevices: answer.allowed.map(stampedDeviceMessage),
    unknownDevices: answer.unknown.map(stampedDeviceMessage),
    heartbeatIntervalMs: config.heartbeat.intervalMs,
  };
}

/**
 * The agent obeyed a later leader of this tablet. Either that leader lives, and the commit fails; or this registry's
 * state is an old backup. Then the counters are raised above what the agent has seen, but no order of this generation
 * would be obeyed, and only another start takes a higher one.
 */
async function refuseOvertaken({ tablet, leader, log }: Context, registration: Registration): Promise<never> {
  await tablet.transact((tx) => {
    raiseCounters(tx, registration);
    // Written even when nothing is raised: a commit is what proves that nobody else leads.
    tx.counters.put({ name: "device_generation", value: lastValue(tx, "device_generation") });
  });
  const { hostId, highestTabletGeneration } = registration;
  const text = overtakenText(hostId, highestTabletGeneration, leader.tabletGeneration);
  log.error({ hostId, highestTabletGeneration }, text);
  throw new InvalidStateError(text, { about: { host_id: hostId } });
}

function overtakenText(hostId: HostId, seen: number, own: number): string {
  return (
    `the agent of host ${hostId} has obeyed tablet generation ${seen}, and this registry is generation ${own}: ` +
    "its state was restored from a backup; restart it until its generation is higher, each start takes the next one"
  );
}
