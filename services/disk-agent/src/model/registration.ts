import { type DeviceId, InvalidStateError, OutdatedError, type Stamp } from "@diskmesh/domain";
import type { AgentMemory } from "./memory.js";
import { type DeviceOrder, decideOrder, type OrderVerdict } from "./orders.js";

/** A registration's answer: what to hold, and what to let go of. */
export interface RegistrationAnswer {
  readonly tabletId: string;
  readonly tabletGeneration: number;
  readonly allowed: readonly { readonly deviceId: DeviceId; readonly stamp: Stamp }[];
  readonly unknown: readonly { readonly deviceId: DeviceId; readonly stamp: Stamp }[];
}

/**
 * Applies an answer as a whole, through the same stamps as any order: an order that overtook the answer on its way
 * wins. Throws when the answer comes from another tablet or a replaced leader; then nothing of it counts.
 */
export function decideRegistration(
  memory: AgentMemory,
  knownDevices: { has(deviceId: DeviceId): boolean },
  answer: RegistrationAnswer,
): { memory: AgentMemory; decisions: { order: DeviceOrder; verdict: OrderVerdict }[] } {
  if (answer.tabletId === "" || (memory.tabletId !== "" && answer.tabletId !== memory.tabletId))
    throw new InvalidStateError(
      `the registry is tablet ${JSON.stringify(answer.tabletId)}, but the agent of host ${memory.hostId} obeys tablet ${memory.tabletId} alone: move its cache file away if the registry was replaced for good`,
    );
  if (answer.tabletGeneration < memory.tabletGeneration)
    throw new OutdatedError(
      `the registration was answered by tablet generation ${answer.tabletGeneration}, but generation ${memory.tabletGeneration} was seen before`,
    );
  const orders: DeviceOrder[] = [
    ...answer.allowed.map((device) => ({ ...device, kind: "attach" as const })),
    ...answer.unknown.map((device) => ({ ...device, kind: "detach" as const })),
  ];
  const foreign = orders.find((order) => order.stamp.tabletId !== answer.tabletId);
  if (foreign)
    throw new InvalidStateError(`the registration's answer carries a stamp of another tablet for ${foreign.deviceId}`);
  let next: AgentMemory = { ...memory, tabletId: answer.tabletId, tabletGeneration: answer.tabletGeneration };
  const decisions = orders.map((order) => {
    const decision = decideOrder(next, knownDevices, order);
    next = decision.memory;
    return { order, verdict: decision.verdict };
  });
  return { memory: next, decisions };
}
