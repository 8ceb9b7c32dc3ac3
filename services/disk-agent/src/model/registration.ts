import { type DeviceId, InvalidStateError, OutdatedError, quoted } from "@diskmesh/domain";
import { type AgentMemory, decideEach, type RememberedSession } from "./memory.js";
import { type DeviceOrder, decideOrder, leaderOf, type OrderVerdict } from "./orders.js";
import { restoreSessions } from "./sessions.js";

/** An incarnation of a tablet. */
interface Incarnation {
  readonly tabletId: string;
  readonly incarnation: string;
}

/** Answer to a registration: the devices to attach and to detach. */
export interface RegistrationAnswer extends Incarnation {
  readonly tabletGeneration: number;
  /** Former incarnations whose agents the answering registry takes over. */
  readonly predecessors: readonly Incarnation[];
  readonly allowed: readonly (Omit<DeviceOrder, "kind"> & {
    /** Floor and sessions that a device takes over if it remembers no session. Absent for 0 and none. */
    readonly floor?: number;
    readonly sessions?: readonly RememberedSession[];
  })[];
  readonly unknown: readonly Omit<DeviceOrder, "kind">[];
}

/**
 * Maximum former incarnations kept; bounds the cache, which is written with each order. Each restore creates an
 * incarnation, and a fleet sees fewer restores than this. Orders of forgotten incarnations are refused as well, with a
 * less specific message.
 */
const MAX_FORMER_INCARNATIONS = 64;

/**
 * Applies an answer to a registration as a whole. Each device goes through the same stamp check as an order, so that an
 * order that overtook a delayed answer wins. Throws, and applies nothing, when the answering registry is replaced, or
 * does not take over from the obeyed one.
 */
export function decideRegistration(
  memory: AgentMemory,
  knownDevices: { has(deviceId: DeviceId): boolean },
  answer: RegistrationAnswer,
): { memory: AgentMemory; decisions: { order: DeviceOrder; verdict: OrderVerdict }[] } {
  const obeying = obeyAnswering(memory, answer);
  const orders: DeviceOrder[] = [
    ...answer.allowed.map((device) => ({ ...device, kind: "attach" as const })),
    ...answer.unknown.map((device) => ({ ...device, kind: "detach" as const })),
  ];
  const foreign = orders.find((order) => !isSame(order.stamp, answer));
  if (foreign)
    throw new InvalidStateError(
      `the registration's answer carries a stamp of another tablet or incarnation for ${foreign.deviceId}`,
    );
  const decide = (before: AgentMemory, order: DeviceOrder) => decideOrder(before, knownDevices, order);
  const restore = (before: AgentMemory, device: RegistrationAnswer["allowed"][number]) => ({
    memory: knownDevices.has(device.deviceId) ? restoreSessions(before, device) : before,
    verdict: undefined,
  });
  const { memory: restored } = decideEach(obeying, answer.allowed, restore);
  const { memory: after, verdicts } = decideEach(restored, orders, decide);
  return {
    memory: after,
    decisions: orders.map((order, index) => ({ order, verdict: verdicts[index] as OrderVerdict })),
  };
}

/**
 * Returns the memory of an agent that obeys a registry which was rebuilt from what agents carry. Throws for another fleet,
 * and for an incarnation that was replaced. The generation comes with the first registration.
 */
export function obeyRebuilt(memory: AgentMemory, rebuilt: Incarnation): AgentMemory {
  requireFleet(memory, rebuilt.tabletId);
  if (isSame(memory, rebuilt)) return memory;
  if (memory.formerIncarnations.includes(rebuilt.incarnation))
    throw new OutdatedError(
      `incarnation ${quoted(rebuilt.incarnation)} was replaced: the agent of host ${memory.hostId} obeys ${leaderOf(memory)}`,
    );
  return changeOver(memory, { ...rebuilt, tabletGeneration: 0, predecessors: [] });
}

/** Throws for an agent that obeys another fleet. */
export function requireFleet({ tabletId, hostId }: AgentMemory, fleetId: string): void {
  if (tabletId === "" || tabletId === fleetId) return;
  throw new InvalidStateError(
    `the agent of host ${hostId} obeys fleet ${quoted(tabletId)}, and not ${quoted(fleetId)}: its disks are no part of that fleet`,
    { about: { host_id: hostId, tablet_id: tabletId } },
  );
}

/** Returns the memory of an agent that obeys the answering registry. */
function obeyAnswering(memory: AgentMemory, answer: RegistrationAnswer): AgentMemory {
  if (memory.formerIncarnations.includes(answer.incarnation))
    throw new OutdatedError(
      `the registry was replaced: ${leaderOf(memory)} replaced incarnation ${quoted(answer.incarnation)}, which answered and which the agent of host ${memory.hostId} never obeys again: stop the replaced registry, or name its successor in this agent's config`,
    );
  if (memory.tabletId === "") return takeIncarnation(memory, answer);
  if (!isSame(memory, answer)) {
    if (answer.predecessors.some((predecessor) => isSame(predecessor, memory))) return changeOver(memory, answer);
    throw refusal(memory, answer);
  }
  if (answer.tabletGeneration < memory.tabletGeneration)
    throw new OutdatedError(
      `the registration was answered by tablet generation ${answer.tabletGeneration}, but the agent has already seen the newer generation ${memory.tabletGeneration}`,
    );
  return takeIncarnation(memory, answer);
}

const isSame = (a: Incarnation, b: Incarnation): boolean =>
  a.tabletId === b.tabletId && a.incarnation === b.incarnation;

function refusal(memory: AgentMemory, answer: RegistrationAnswer): InvalidStateError {
  const { tabletId, incarnation, hostId } = memory;
  const adopt = `AdoptFleet of tablet ${quoted(tabletId)}, incarnation ${quoted(incarnation)}`;
  return new InvalidStateError(
    `the registry is incarnation ${quoted(answer.incarnation)} of tablet ${quoted(answer.tabletId)}, but the agent of host ${hostId} obeys only ${leaderOf(memory)}: if the answering registry shall lead this agent from now on, call ${adopt}, at that registry; to hand the host over to another mesh for good, move the agent's cache file away`,
  );
}

type Answering = Pick<RegistrationAnswer, "tabletId" | "incarnation" | "tabletGeneration" | "predecessors">;

function takeIncarnation(memory: AgentMemory, answer: Answering): AgentMemory {
  const { tabletId, incarnation, tabletGeneration } = answer;
  const taken = { ...memory, tabletId, incarnation, tabletGeneration };
  if (memory.incarnation === incarnation) return taken;
  return { ...taken, formerIncarnations: formerOnes(memory, answer) };
}

/**
 * Changes over to another incarnation. Remembered generations are reset, because another registry gave them. Held and
 * closed devices stay as they are until an order changes them. Sessions, exports and their numbers continue.
 */
function changeOver(memory: AgentMemory, answer: Answering): AgentMemory {
  const devices = new Map(memory.devices);
  for (const [deviceId, device] of devices)
    if (device.order)
      devices.set(deviceId, { ...device, order: { ...device.order, tabletGeneration: 0, deviceGeneration: 0 } });
  return takeIncarnation({ ...memory, devices }, answer);
}

function formerOnes(memory: AgentMemory, answer: Answering): string[] {
  const predecessors = answer.predecessors.map(({ incarnation }) => incarnation);
  // The incarnation obeyed so far is last, and is therefore forgotten last: its registry may still be running.
  const all = new Set([...memory.formerIncarnations, ...predecessors].filter((each) => each !== memory.incarnation));
  all.add(memory.incarnation);
  for (const never of ["", answer.incarnation]) all.delete(never);
  return [...all].slice(-MAX_FORMER_INCARNATIONS);
}
