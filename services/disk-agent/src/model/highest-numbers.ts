import type { AgentMemory } from "./memory.js";

/** Numbers from which a registry learns whether its store is older than what it gave out before. */
export interface HighestNumbers {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly highestTabletGeneration: number;
  /** Highest of the orders of this incarnation, including those for devices that the agent no longer has. */
  readonly highestDeviceGeneration: number;
  /** Highest of devices and exports, of any incarnation: session numbers continue over all incarnations. */
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
