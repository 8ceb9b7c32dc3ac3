import type { AgentMemory } from "./memory.js";
import { highestSession } from "./sessions.js";

/** Highest numbers that the agent has seen. A registry whose own numbers are lower has an outdated store. */
export interface HighestNumbers {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly highestTabletGeneration: number;
  /**
   * Highest device generation of this incarnation's orders, including orders for devices that the agent no longer has.
   */
  readonly highestDeviceGeneration: number;
  /**
   * Highest session number of devices and exports, in any incarnation, because session numbers continue over all of
   * them.
   */
  readonly highestSessionNumber: number;
}

export function highestNumbers(memory: AgentMemory): HighestNumbers {
  let highestDeviceGeneration = 0;
  let highestSessionNumber = memory.exportFloor;
  for (const [deviceId, { order }] of memory.devices) {
    if (order) highestDeviceGeneration = Math.max(highestDeviceGeneration, order.deviceGeneration);
    highestSessionNumber = Math.max(highestSessionNumber, highestSession(memory, deviceId));
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
