import type { AgentMemory } from "./memory.js";

/** What a registry learns from whether it is behind: a store that was copied back gave out lower numbers than these. */
export interface HighestNumbers {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly highestTabletGeneration: number;
  /** Of the orders of this incarnation, also for devices that the agent has no more. */
  readonly highestDeviceGeneration: number;
  /** Of devices and exports, whoever gave it: session numbers go on over all incarnations. */
  readonly highestSessionNumber: number;
}

export function highestNumbers(memory: AgentMemory): HighestNumbers {
  let highestDeviceGeneration = 0;
  let highestSessionNumber = memory.exportFloor;
  for (const { order, session } of memory.devices.values()) {
    if (order) highestDeviceGeneration = Math.max(highestDeviceGeneration, order.deviceGeneration);
    if (session) highestSessionNumber = Math.max(highestSessionNumber, session.number);
  }
  for (const { sessionNumber } of memory.exports.values())
    highestSessionNumber = Math.max(highestSessionNumber, sessionNumber);
  return {
    tabletId: memory.tabletId,
    incarnation: memory.incarnation,
    highestTabletGeneration: memory.tabletGeneration,
    highestDeviceGeneration,
    highestSessionNumber,
  };
}
