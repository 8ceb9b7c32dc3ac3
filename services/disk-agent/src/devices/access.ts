import { type DeviceId, OutdatedError, UnavailableError } from "@diskmesh/domain";
import { type AgentMemory, isWanted } from "../model/memory.js";
import { isCurrentSession, superseded } from "../model/sessions.js";

/** State of a device that decides who may use it. */
export interface Accessed {
  readonly id: DeviceId;
  /** Reason why the device's file is not the recorded one; undefined when it is. */
  readonly whyChanged: string | undefined;
  readonly holds: boolean;
  /** Session that may do I/O. */
  readonly grantedSession: number;
  readonly borrower: { isGoneBelow(sessionNumber: number): boolean };
}

/**
 * Throws OutdatedError when a session may never use the device again, and UnavailableError when it may not use it now.
 */
export function requireAccess(device: Accessed, memory: AgentMemory, sessionNumber: number): void {
  const { id, whyChanged } = device;
  const about = { device_id: id };
  const current = memory.devices.get(id)?.session;
  if (current === undefined || current.number < sessionNumber)
    throw new UnavailableError(`session ${sessionNumber} of device ${id} is not open on this agent`, { about });
  if (!isCurrentSession(memory, id, sessionNumber))
    throw new OutdatedError(superseded(id, sessionNumber, current), { about });
  if (whyChanged !== undefined) throw new UnavailableError(`device ${id} has changed: ${whyChanged}`, { about });
  if (!device.holds) throw notAttached(id);
  if (!device.borrower.isGoneBelow(sessionNumber))
    throw new UnavailableError(`a process of an earlier session still has device ${id}`, { about });
  if (device.grantedSession !== sessionNumber)
    throw new UnavailableError(`session ${sessionNumber} of device ${id} is not granted yet`, { about });
}

export function notAttached(id: DeviceId): UnavailableError {
  return new UnavailableError(`device ${id} is not attached`, { about: { device_id: id } });
}

/**
 * Returns why a process of the session must no longer have the device; undefined when it may. A file that the agent has
 * not opened is no reason, because the process has a descriptor of its own.
 */
export function whyNotKept(device: Accessed, memory: AgentMemory, sessionNumber: number): string | undefined {
  const { id } = device;
  const current = memory.devices.get(id)?.session;
  if (current === undefined) return `session ${sessionNumber} of device ${id} is not open on this agent`;
  if (!isCurrentSession(memory, id, sessionNumber)) return superseded(id, sessionNumber, current);
  if (!isWanted(memory, id)) return `device ${id} was ordered detached`;
  return device.whyChanged;
}
