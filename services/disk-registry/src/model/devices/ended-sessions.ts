import type { Device, RegistryTables } from "../store/schema.js";
import { lastValue } from "./counters.js";

/**
 * Returns the device whose sessions so far are over: what is in its place from now on is not, or may not be, what they were
 * given on. The next attach order has the agent end them.
 */
export function withSessionsEnded(tables: RegistryTables, device: Device): Device {
  const endedSessionNumber = lastValue(tables, "session_number");
  return endedSessionNumber === 0 ? device : { ...device, endedSessionNumber };
}

/** Returns the number up to which the agent ends the device's sessions; 0 for none. An unknown disk keeps its session. */
export function endedSessions({ endedSessionNumber = 0, unknownSession }: Device): number {
  return unknownSession === undefined ? endedSessionNumber : 0;
}
