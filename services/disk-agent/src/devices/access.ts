import { type DeviceId, InvalidArgumentError, OutdatedError, UnavailableError } from "@diskmesh/domain";
import { BELOW_SESSIONS } from "../files/in-flight.js";
import { LABEL_AREA } from "../model/label.js";
import { type AgentMemory, isWanted } from "../model/memory.js";
import { describeRun, endOf, type Run } from "../model/runs.js";
import { isBytesOfUser, sessionAt, whyOutdated } from "../model/sessions.js";
import type { GrantedRuns } from "./granted-runs.js";

/** State of a device that decides who may use it. */
export interface Accessed {
  readonly id: DeviceId;
  /** Reason why the device's file is not the recorded one; undefined when it is. */
  readonly whyChanged: string | undefined;
  readonly holds: boolean;
  readonly label: { readonly isPending: boolean };
  readonly granted: Pick<GrantedRuns, "at">;
  readonly legs: {
    /** Returns whether no lower session has any byte of the run. */
    areGoneBelow(sessionNumber: number, run: Run): boolean;
  };
}

/** Bytes of a device that a session is to use. */
export interface Access {
  readonly sessionNumber: number;
  readonly startBytes: number;
  readonly lengthBytes: number;
  /** True for a write of the agent past the kernel's caches: of a record, or beside the label. */
  readonly isPastCaches?: true | undefined;
}

/**
 * Returns the run in which the session may use the bytes. Throws OutdatedError when the session may never use them again,
 * UnavailableError when it may not use them now, and InvalidArgumentError when they are not all in one run.
 */
export function requireAccess(device: Accessed, memory: AgentMemory, access: Access): Run {
  if (access.sessionNumber === BELOW_SESSIONS) return requireBesideLabel(device, memory);
  const { id, whyChanged } = device;
  const { sessionNumber, startBytes, lengthBytes } = access;
  const about = { device_id: id };
  const outdated = whyOutdated(memory, { deviceId: id, offsetBytes: startBytes }, sessionNumber);
  if (outdated !== undefined) throw new OutdatedError(outdated, { about });
  // A record is written before its session is remembered. Later sessions of its bytes wait for the write.
  if (access.isPastCaches && whyChanged === undefined && device.holds)
    return { offsetBytes: startBytes, sizeBytes: lengthBytes };
  const current = sessionAt(memory, id, startBytes);
  if (current?.number !== sessionNumber)
    throw new UnavailableError(`session ${sessionNumber} of device ${id} is not open on this agent`, { about });
  if (startBytes + lengthBytes > endOf(current)) {
    const text = `${lengthBytes} bytes at ${startBytes} are not inside ${describeRun({ deviceId: id, ...current })}`;
    throw new InvalidArgumentError(text, { about });
  }
  if (whyChanged !== undefined) throw new UnavailableError(`device ${id} has changed: ${whyChanged}`, { about });
  if (!device.holds) throw notAttached(id);
  if (device.label.isPending) throw new UnavailableError(`the label of device ${id} is being read`, { about });
  if (!device.legs.areGoneBelow(sessionNumber, current))
    throw new UnavailableError(`an earlier session still has device ${id}`, { about });
  const granted = device.granted.at(current.offsetBytes);
  if (granted?.sessionNumber !== sessionNumber || startBytes + lengthBytes > endOf(granted))
    throw new UnavailableError(`session ${sessionNumber} of device ${id} is not granted yet`, { about });
  return granted;
}

/** Returns the label area. Throws UnavailableError while a disk or an erase has it, and while the device is not held. */
function requireBesideLabel({ id, whyChanged, holds }: Accessed, memory: AgentMemory): Run {
  const { sessions = [] } = memory.devices.get(id) ?? {};
  if (whyChanged !== undefined || !holds) throw notAttached(id);
  if (!sessions.some((session) => isBytesOfUser(session, LABEL_AREA))) return LABEL_AREA;
  throw new UnavailableError(`a disk or an erase has the first bytes of device ${id}`, { about: { device_id: id } });
}

export function notAttached(id: DeviceId): UnavailableError {
  return new UnavailableError(`device ${id} is not attached`, { about: { device_id: id } });
}

/**
 * Returns why a leg of the session must no longer have its run; undefined when it may. A file that the agent has not opened
 * is no reason, because the kernel holds the drive.
 */
export function whyNotKept(
  device: Pick<Accessed, "id" | "whyChanged">,
  memory: AgentMemory,
  sessionNumber: number,
  offsetBytes: number,
): string | undefined {
  const { id } = device;
  const outdated = whyOutdated(memory, { deviceId: id, offsetBytes }, sessionNumber);
  if (outdated !== undefined) return outdated;
  if (sessionAt(memory, id, offsetBytes)?.number !== sessionNumber)
    return `session ${sessionNumber} of device ${id} is not open on this agent`;
  if (!isWanted(memory, id)) return `device ${id} was ordered detached`;
  return device.whyChanged;
}
