import {
  compareStamps,
  type DeviceId,
  formatStamp,
  InvalidArgumentError,
  InvalidStateError,
  OutdatedError,
  quoted,
  type Stamp,
  UnavailableError,
} from "@diskmesh/domain";
import {
  type AgentMemory,
  isSameIdentity,
  lastStamp,
  type OrderKind,
  type RememberedIdentity,
  rememberIdentity,
  withDevice,
} from "./memory.js";
import { endSessions, endSessionsUpTo } from "./sessions.js";

/** An attach or detach order for one device. */
export interface DeviceOrder {
  readonly deviceId: DeviceId;
  readonly stamp: Stamp;
  readonly kind: OrderKind;
  /** Set with an attach: the registry's record of the device. */
  readonly expected?: RememberedIdentity | undefined;
  /** Set with an attach: sessions up to this number are of what was in the device's place before. Absent for 0. */
  readonly endedSessionNumber?: number;
  /** Set with an attach: the label that the registry knows to be the device's; absent for none. */
  readonly labelId?: string | undefined;
}

/** `obey`: the order is remembered, and is to be executed. It may be a repeat, which is tried again after a failure. */
export type OrderVerdict = "obey" | { readonly outcome: "outdated" | "unknown_device"; readonly message: string };

/**
 * Rule 1: accepts a request, and returns the memory with its tablet generation. Throws when the request is for another
 * start of the agent, is of another tablet or incarnation, or is of a replaced leader. Only a registration sets the
 * tablet and incarnation that the agent obeys.
 */
export function acceptRequest(
  memory: AgentMemory,
  bootId: string,
  request: { readonly bootId: string; readonly stamps: readonly Stamp[] },
): AgentMemory {
  if (request.bootId !== bootId)
    throw new OutdatedError(
      `the order is for start ${JSON.stringify(request.bootId.slice(0, 80))} of the agent of host ${memory.hostId}, which has restarted as ${bootId}: wait for its registration`,
      // A sender with an outdated boot id may be a replaced leader, so the error names the leader that the agent obeys.
      { about: { host_id: memory.hostId, tablet_id: memory.tabletId, incarnation: memory.incarnation } },
    );
  if (memory.tabletId === "")
    throw new UnavailableError(
      `the agent of host ${memory.hostId} has not registered with a registry yet: it accepts orders once it has`,
      { about: { host_id: memory.hostId } },
    );
  if (request.stamps.length === 0) throw new InvalidArgumentError("the order has no stamp: give one");
  let highest = memory.tabletGeneration;
  for (const stamp of request.stamps) {
    refuseOtherIncarnation(memory, stamp);
    if (stamp.tabletGeneration < memory.tabletGeneration)
      throw new OutdatedError(
        `the order ${formatStamp(stamp)} comes from a former leader: the agent of host ${memory.hostId} has seen the newer tablet generation ${memory.tabletGeneration}`,
        { about: { host_id: memory.hostId } },
      );
    highest = Math.max(highest, stamp.tabletGeneration);
  }
  return highest === memory.tabletGeneration ? memory : { ...memory, tabletGeneration: highest };
}

/** Returns whether the stamp is of the obeyed tablet and incarnation, at any generation. */
function isOfLeader(memory: AgentMemory, { tabletId, incarnation }: Stamp): boolean {
  return tabletId === memory.tabletId && incarnation === memory.incarnation;
}

function refuseOtherIncarnation(memory: AgentMemory, stamp: Stamp): void {
  const { hostId, tabletId, incarnation, formerIncarnations } = memory;
  // The error names the registry that the agent obeys instead.
  const about = { host_id: hostId, tablet_id: tabletId, incarnation };
  const from = `incarnation ${quoted(stamp.incarnation)} of tablet ${quoted(stamp.tabletId)}`;
  if (formerIncarnations.includes(stamp.incarnation))
    throw new OutdatedError(
      `the order comes from a registry that was replaced: the agent of host ${hostId} obeys ${leaderOf(memory)}, which took over from ${from}`,
      { about },
    );
  if (!isOfLeader(memory, stamp))
    throw new InvalidStateError(
      `the order comes from ${from}, but the agent of host ${hostId} obeys only ${leaderOf(memory)}; only a registration changes that`,
      { about },
    );
}

/** Formats the obeyed tablet and incarnation for messages. */
export function leaderOf({ tabletId, incarnation }: AgentMemory): string {
  return `incarnation ${quoted(incarnation)} of tablet ${quoted(tabletId)}`;
}

/** Rule 2: decides an order for one device, and returns the memory with the decision. */
export function decideOrder(
  memory: AgentMemory,
  knownDevices: { has(deviceId: DeviceId): boolean },
  order: DeviceOrder,
): { memory: AgentMemory; verdict: OrderVerdict } {
  if (!knownDevices.has(order.deviceId)) {
    const message = `host ${memory.hostId} has no device ${order.deviceId}`;
    return { memory, verdict: { outcome: "unknown_device", message } };
  }
  const last = lastStamp(memory, order.deviceId);
  const lastKind = memory.devices.get(order.deviceId)?.order?.kind;
  if (last !== undefined && lastKind !== undefined) {
    const difference = compareStamps(order.stamp, last);
    if (difference === 0 && lastKind === order.kind)
      return { memory: withLabel(withExpected(memory, order), order), verdict: "obey" };
    if (difference <= 0) return { memory, verdict: { outcome: "outdated", message: whyOlder(order, last, lastKind) } };
  }
  const { tabletGeneration, deviceGeneration } = order.stamp;
  const remembered = { tabletGeneration, deviceGeneration, kind: order.kind };
  const { identity, formerIdentity } = memory.devices.get(order.deviceId) ?? {};
  if (order.kind === "detach") {
    const left = { identity: undefined, labelId: undefined, formerIdentity: identity ?? formerIdentity };
    const change = { order: remembered, ...left };
    return { memory: withDevice(memory, order.deviceId, change), verdict: "obey" };
  }
  const ended = withSessionsEnded(memory, order);
  const next = withDevice(ended, order.deviceId, {
    order: remembered,
    formerIdentity: undefined,
    labelId: order.labelId,
  });
  return { memory: withExpected(next, order), verdict: "obey" };
}

/** Ends the sessions that must not read or write the bytes that are attached: they are of others. */
function withSessionsEnded(
  memory: AgentMemory,
  { deviceId, expected, endedSessionNumber = 0 }: DeviceOrder,
): AgentMemory {
  const { order, formerIdentity } = memory.devices.get(deviceId) ?? {};
  const ended = endSessionsUpTo(memory, deviceId, endedSessionNumber);
  const isOther = order?.kind === "detach" && !isSameIdentity(formerIdentity, expected);
  return isOther ? endSessions(ended, deviceId) : ended;
}

/** Remembers another label. A repeated order that names none may be older than a label that was written since. */
function withLabel(memory: AgentMemory, { kind, deviceId, labelId }: DeviceOrder): AgentMemory {
  if (kind === "detach" || labelId === undefined) return memory;
  return memory.devices.get(deviceId)?.labelId === labelId ? memory : withDevice(memory, deviceId, { labelId });
}

function withExpected(memory: AgentMemory, { deviceId, kind, expected }: DeviceOrder): AgentMemory {
  return kind === "detach" || expected === undefined ? memory : rememberIdentity(memory, deviceId, expected);
}

/**
 * Rule 3: returns why the order is not the last one for its device any more; undefined while it is. Callers ask after every
 * await.
 */
export function whyOvertaken(memory: AgentMemory, order: DeviceOrder): string | undefined {
  const last = lastStamp(memory, order.deviceId);
  const lastKind = memory.devices.get(order.deviceId)?.order?.kind;
  if (last === undefined || lastKind === undefined || !isOfLeader(memory, order.stamp))
    return `${order.kind} ${formatStamp(order.stamp)} of device ${order.deviceId} is outdated: the agent changed over to ${leaderOf(memory)}`;
  return compareStamps(order.stamp, last) === 0 && lastKind === order.kind
    ? undefined
    : whyOlder(order, last, lastKind);
}

function whyOlder(order: DeviceOrder, last: Stamp, lastKind: OrderKind): string {
  return `${order.kind} ${formatStamp(order.stamp)} of device ${order.deviceId} is outdated: the last order obeyed was ${lastKind} ${formatStamp(last)}`;
}
