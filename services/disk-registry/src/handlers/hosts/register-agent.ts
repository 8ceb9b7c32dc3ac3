import type { RegisterAgentRequest, RegisterAgentResponse } from "@diskmesh/api/internal";
import {
  formatIdentity,
  type HostId,
  InvalidArgumentError,
  InvalidStateError,
  parseHostId,
  ResourceExhaustedError,
} from "@diskmesh/domain";
import type { CallContext } from "@diskmesh/rpc";
import { withRanges } from "../../agents/remembered-runs.js";
import { requireOwnHost } from "../../calls/agent-identity.js";
import type { Context } from "../../calls/context.js";
import { addCall } from "../../calls/removal-call.js";
import { predecessorsOf } from "../../model/disks/remembered.js";
import type { OwnWork } from "../../model/events/events.js";
import {
  noteRegistration,
  registerAgent as register,
  requireInOrder,
  requireNotReplaced,
} from "../../model/hosts/registration.js";
import { addJoined, takeJoined } from "../../model/joins/join-tokens.js";
import { hostLimits } from "../../requests/limits.js";
import { parseRegistration } from "../../requests/registration-request.js";
import { plainText } from "../../requests/requests.js";
import { stampedDeviceMessage } from "../../requests/wire.js";

const REGISTRATION: OwnWork = { work: "a registration" };
const MAX_ADDRESS_LENGTH = 300;

export async function registerAgent(
  context: Context,
  request: RegisterAgentRequest,
  call: CallContext,
): Promise<RegisterAgentResponse> {
  const hostId = parseHostId(request.hostId);
  requireOwnHost(context, call, hostId);
  try {
    return await takeIn(context, request, hostId, call);
  } catch (error) {
    noteRefusal(context, request, hostId, call, error);
    throw error;
  }
}

/** Logs and records a refusal that will repeat until somebody fixes its cause. */
function noteRefusal(
  { fleet, log, refusalLines, refusedAgents }: Context,
  { address }: RegisterAgentRequest,
  hostId: HostId,
  { identity }: CallContext,
  error: unknown,
): void {
  const isLasting =
    error instanceof InvalidArgumentError ||
    error instanceof InvalidStateError ||
    error instanceof ResourceExhaustedError;
  // Records no refusal while the registry stands still because another registry leads: its cause is this registry and
  // not the agent.
  if (!isLasting || fleet.standsStill !== undefined) return;
  const about = { hostId, address: plainText(address, MAX_ADDRESS_LENGTH), error: error.message };
  const isNew = refusedAgents.registrationRefused(hostId, about.address, error.message);
  if (isNew && refusalLines.admits(formatIdentity(identity))) log.warn(about, "agent registration refused");
}

async function takeIn(
  context: Context,
  request: RegisterAgentRequest,
  hostId: HostId,
  call: CallContext,
): Promise<RegisterAgentResponse> {
  const { tablet, fleet, clock, config, limits, liveness, log, refusalLines, workers } = context;
  const heardAtMs = clock.nowMs();
  await context.registrationTurn();
  // Stops the work of a call whose caller gave up, because that agent registers again.
  call.signal.throwIfAborted();
  const { serialNumbersOfMany } = config;
  const parsed = parseRegistration(request, hostId, { limits, serialNumbersOfMany }, heardAtMs);
  const { refusedDevices = [] } = parsed;
  if (refusedDevices.length > 0 && refusalLines.admits(formatIdentity(call.identity)))
    log.warn(
      { hostId, devices: refusedDevices.length, first: refusedDevices[0] },
      "devices of an agent registration refused",
    );
  await fleet.hear(hostId, parsed.bootId, parsed.remembered);
  // The answer to a registration contains orders, so a registry that does not lead refuses it. It still accepts
  // heartbeats, because the hosts are alive.
  fleet.requireLeads();
  const { registration, requireUnchanged } = await withRanges(context, request, parsed);
  const ofHosts = hostLimits(context);
  const answer = await tablet.transact((tx) => {
    requireNotReplaced(tx, registration, () => liveness.isInPlace(hostId));
    requireInOrder(context.lastRegistrations, registration);
    fleet.requireSettled();
    requireUnchanged(tx);
    const leader = fleet.leader();
    const taken = register(tx, registration, leader, ofHosts, clock.nowMs());
    // Updates `liveness` within the transaction, because a sweep of the host monitor in between would see a registered
    // but silent host.
    liveness.hearRegistration(hostId, registration.bootId);
    const added = takeJoined(tx, hostId) ? addJoined(tx, hostId, addCall(context)) : undefined;
    noteRegistration(context.lastRegistrations, registration);
    return { ...taken, added, leader, predecessors: predecessorsOf(tx, leader, tablet.parentIncarnations) };
  }, REGISTRATION);
  context.refusedAgents.registrationTaken(hostId, registration.address);
  if (answer.added !== undefined) log.info({ hostId, result: answer.added }, "joined host added");
  workers.wakeHost(hostId);
  if (answer.unknownExports.length > 0) context.unknownExports.set(hostId, answer.unknownExports);
  else context.unknownExports.delete(hostId);
  for (const stray of answer.strayExports) workers.wakeUnexport({ hostId, ...stray });
  return {
    ...answer.leader,
    predecessors: answer.predecessors,
    allowedDevices: answer.allowed.map(stampedDeviceMessage),
    unknownDevices: answer.unknown.map(stampedDeviceMessage),
    heartbeatIntervalMs: config.heartbeat.intervalMs,
  };
}
