import type { DeviceId } from "@diskmesh/domain";
import { type AgentMemory, type RememberedSession, withDevice } from "./memory.js";

/** Bytes of the key that a holder on another host proves. */
export const SESSION_KEY_BYTES = 32;

export type SessionWish = Omit<RememberedSession, "ended">;

export type SessionVerdict =
  /**
   * The session is new and is remembered now. Lower sessions may start no more I/O; the session is granted once their
   * I/O has ended.
   */
  | { readonly verdict: "supersede" }
  /** The session is remembered already. */
  | { readonly verdict: "same" }
  | { readonly verdict: "outdated"; readonly message: string };

/** Decides whether to open a session. A device accepts only the highest session number that it has seen. */
export function decideOpenSession(
  memory: AgentMemory,
  deviceId: DeviceId,
  wish: SessionWish,
): { memory: AgentMemory; verdict: SessionVerdict } {
  const current = memory.devices.get(deviceId)?.session;
  if (current !== undefined && wish.number <= current.number) {
    const same =
      wish.number === current.number &&
      !current.ended &&
      wish.purpose === current.purpose &&
      wish.diskId === current.diskId &&
      wish.holderHostId === current.holderHostId;
    if (!same) return { memory, verdict: { verdict: "outdated", message: superseded(deviceId, wish.number, current) } };
    // A new leader opens the session again with a key of its own.
    const isKnown = current.sessionKey === wish.sessionKey;
    return {
      memory: isKnown ? memory : withDevice(memory, deviceId, { session: { ...wish, ended: false } }),
      verdict: { verdict: "same" },
    };
  }
  return {
    memory: withDevice(memory, deviceId, { session: { ...wish, ended: false } }),
    verdict: { verdict: "supersede" },
  };
}

/** Ends a session and all lower ones. A session that was never opened here can be ended in advance. */
export function decideCloseSession(
  memory: AgentMemory,
  deviceId: DeviceId,
  number: number,
): { memory: AgentMemory; changed: boolean } {
  const current = memory.devices.get(deviceId)?.session;
  if (current !== undefined && (current.number > number || (current.number === number && current.ended)))
    return { memory, changed: false };
  const session: RememberedSession =
    current?.number === number
      ? { ...withoutKey(current), ended: true }
      : { number, purpose: "disk", diskId: "", holderHostId: "", ended: true };
  return { memory: withDevice(memory, deviceId, { session }), changed: true };
}

function withoutKey({ sessionKey: _, ...session }: RememberedSession): RememberedSession {
  return session;
}

export function isCurrentSession(memory: AgentMemory, deviceId: DeviceId, number: number): boolean {
  const current = memory.devices.get(deviceId)?.session;
  return current !== undefined && current.number === number && !current.ended;
}

/** Formats why a session number is refused, for error messages. */
export function superseded(deviceId: DeviceId, number: number, current: RememberedSession): string {
  if (current.number === number)
    return current.ended
      ? `session ${number} of device ${deviceId} has ended`
      : `session ${number} of device ${deviceId} was opened for ${describe(current)}`;
  return `session ${number} of device ${deviceId} is outdated: session ${current.number} was opened later`;
}

function describe(session: RememberedSession): string {
  if (session.purpose === "erase") return "an erase";
  const holder = session.holderHostId === "" ? "no holder" : `holder ${session.holderHostId}`;
  return `disk ${session.diskId} with ${holder}`;
}
