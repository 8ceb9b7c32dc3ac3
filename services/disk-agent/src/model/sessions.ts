import type { DeviceId } from "@diskmesh/domain";
import { type AgentMemory, type RememberedSession, withDevice } from "./memory.js";
import { type DeviceRun, describeRun, endOf, overlaps, type Run, without } from "./runs.js";

/** Bytes of the key that a holder on another host proves. */
export const SESSION_KEY_BYTES = 32;

export type SessionWish = Omit<RememberedSession, "ended" | keyof Run>;

/**
 * `grant`: the session is remembered. Lower sessions of its range may start no more I/O; it is granted once their I/O has
 * ended.
 */
export type SessionVerdict =
  | "grant"
  | { readonly outcome: "outdated"; readonly message: string }
  /** The session may be one of a run that was forgotten after its erase. */
  | { readonly outcome: "below_floor"; readonly message: string; readonly floor: number };

interface Sessions {
  readonly sessions: readonly RememberedSession[];
  readonly floor: number;
}

function sessionsOf(memory: AgentMemory, deviceId: DeviceId): Sessions {
  const { sessions = [], floor = 0 } = memory.devices.get(deviceId) ?? {};
  return { sessions, floor };
}

/**
 * Decides whether to open a session. A byte accepts only the highest session number that it has seen. A session keeps
 * its number when its run grows, and its range never becomes shorter. With a `formerNumber`, a new one follows only that.
 */
export function decideOpenSession(
  memory: AgentMemory,
  { deviceId, offsetBytes, sizeBytes }: DeviceRun,
  wish: SessionWish,
  formerNumber = 0,
): { memory: AgentMemory; verdict: SessionVerdict } {
  const run = { deviceId, offsetBytes, sizeBytes };
  const { sessions, floor } = sessionsOf(memory, deviceId);
  const known = sessions.find((each) => each.number === wish.number && each.offsetBytes === offsetBytes);
  const outdated = (current: RememberedSession) => {
    const message = superseded(run, wish.number, current);
    return { memory, verdict: { outcome: "outdated" as const, message } };
  };
  if (known !== undefined && !isSame(known, wish)) return outdated(known);
  const later = sessions.find((each) => each !== known && each.number >= wish.number && overlaps(each, run));
  if (later !== undefined) return outdated(later);
  if (known === undefined && wish.number <= floor) {
    const message = `session ${wish.number} of ${describeRun(run)} may be one that was forgotten: the floor is ${floor}`;
    return { memory, verdict: { outcome: "below_floor", message, floor } };
  }
  const isGrown = known === undefined || endOf(run) > endOf(known);
  const former = sessions.filter((each) => overlaps(each, run));
  const isFormer = former.length === 1 && former[0]?.number === formerNumber && !former[0].ended;
  if (known === undefined && formerNumber > 0 && !isFormer) {
    const message = `session ${wish.number} of ${describeRun(run)} was to follow session ${formerNumber}, which was not the last one`;
    return { memory, verdict: { outcome: "outdated", message } };
  }
  // A new leader opens the session again with a key of its own.
  if (!isGrown && known.sessionKey === wish.sessionKey) return { memory, verdict: "grant" };
  const session = { ...wish, offsetBytes, sizeBytes: isGrown ? sizeBytes : known.sizeBytes, ended: false };
  return { memory: withSession(memory, deviceId, session), verdict: "grant" };
}

function isSame(known: RememberedSession, wish: SessionWish): boolean {
  return (
    !known.ended &&
    wish.purpose === known.purpose &&
    wish.diskId === known.diskId &&
    wish.holderHostId === known.holderHostId
  );
}

/** Remembers a session in place of all others of its bytes. A session that loses some of its bytes has ended. */
function withSession(memory: AgentMemory, deviceId: DeviceId, session: RememberedSession): AgentMemory {
  const left = sessionsOf(memory, deviceId).sessions.flatMap((each) =>
    overlaps(each, session)
      ? without(each, session).map((range) => ({ ...withoutKey(each), ...range, ended: true }))
      : [each],
  );
  const sessions = [...left, session].sort((a, b) => a.offsetBytes - b.offsetBytes);
  return withDevice(memory, deviceId, { sessions });
}

/** Ends a session and all lower ones of its run. A session that was never opened here can be ended in advance. */
export function decideCloseSession(
  memory: AgentMemory,
  { deviceId, offsetBytes, sizeBytes }: DeviceRun,
  number: number,
): { memory: AgentMemory; changed: boolean } {
  const run = { offsetBytes, sizeBytes };
  const { sessions, floor } = sessionsOf(memory, deviceId);
  const known = sessions.find((each) => each.number === number && each.offsetBytes === offsetBytes);
  const isLater = (each: RememberedSession): boolean => each.number >= number && overlaps(each, run);
  if (known === undefined ? number <= floor || sessions.some(isLater) : known.ended) return { memory, changed: false };
  const session: RememberedSession =
    known === undefined
      ? { number, purpose: "disk", diskId: "", holderHostId: "", ended: true, ...run }
      : { ...withoutKey(known), ended: true };
  return { memory: withSession(memory, deviceId, session), changed: true };
}

/** Ends all sessions of the device. Their numbers go on refusing lower ones. */
export function endSessions(memory: AgentMemory, deviceId: DeviceId): AgentMemory {
  const { sessions } = sessionsOf(memory, deviceId);
  if (sessions.every(({ ended }) => ended)) return memory;
  return withDevice(memory, deviceId, { sessions: sessions.map((each) => ({ ...withoutKey(each), ended: true })) });
}

/** Ends and forgets all sessions of the device up to this number, which the floor refuses from now on. */
export function endSessionsUpTo(memory: AgentMemory, deviceId: DeviceId, upTo: number): AgentMemory {
  const { sessions, floor } = sessionsOf(memory, deviceId);
  const left = sessions.filter(({ number }) => number > upTo);
  if (upTo <= floor && left.length === sessions.length) return memory;
  return withDevice(memory, deviceId, { sessions: left, floor: Math.max(floor, upTo) });
}

/**
 * Forgets the run of an erase or label whose session has ended, because nothing of a former disk is left there. Later
 * sessions may have left pieces of it. The floor refuses its sessions from now on.
 */
export function forgetErased(memory: AgentMemory, { deviceId, ...run }: DeviceRun, number: number): AgentMemory {
  const { sessions, floor } = sessionsOf(memory, deviceId);
  const isErased = (each: RememberedSession): boolean =>
    each.number === number && each.purpose !== "disk" && each.ended && overlaps(each, run);
  const left = sessions.filter((each) => !isErased(each));
  if (left.length === sessions.length) return memory;
  return withDevice(memory, deviceId, { sessions: left, floor: Math.max(floor, number) });
}

/** Forgets the sessions of labels that a former life of the agent was writing. Nobody goes on with them. */
export function forgetLabelSessions(memory: AgentMemory): AgentMemory {
  const isOfLabel = ({ purpose }: RememberedSession): boolean => purpose === "label";
  const left = [...memory.devices].flatMap(([deviceId, { sessions = [] }]) =>
    sessions.filter(isOfLabel).map((session) => ({ deviceId, ...session })),
  );
  return left.reduce(
    (before, run) => forgetErased(decideCloseSession(before, run, run.number).memory, run, run.number),
    memory,
  );
}

/**
 * Takes over from the registry what a device remembers of sessions after a lost cache. Changes nothing of a device that
 * remembers any, because it knows better.
 */
export function restoreSessions(
  memory: AgentMemory,
  given: { readonly deviceId: DeviceId } & Partial<Sessions>,
): AgentMemory {
  const { deviceId, floor = 0, sessions = [] } = given;
  const isLost = highestSession(memory, deviceId) === 0;
  if (!isLost || floor === 0) return memory;
  const restored = withDevice(memory, deviceId, { floor });
  return sessions.reduce((before, session) => withSession(before, deviceId, session), restored);
}

function withoutKey({ sessionKey: _, ...session }: RememberedSession): RememberedSession {
  return session;
}

/** Returns the session that was opened last on a byte of the device; undefined when none is remembered. */
export function sessionAt(memory: AgentMemory, deviceId: DeviceId, atBytes: number): RememberedSession | undefined {
  const { sessions } = sessionsOf(memory, deviceId);
  let [low, high] = [0, sessions.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sessions[middle]?.offsetBytes ?? 0) <= atBytes) low = middle + 1;
    else high = middle;
  }
  const found = sessions[low - 1];
  return found !== undefined && atBytes < endOf(found) ? found : undefined;
}

/** Returns whether the session is the last one of all bytes of the run, and has not ended. */
export function isCurrentSession(memory: AgentMemory, run: DeviceRun, number: number): boolean {
  const current = sessionAt(memory, run.deviceId, run.offsetBytes);
  return current !== undefined && current.number === number && !current.ended && endOf(current) >= endOf(run);
}

/** Returns why a session may never use a byte of the device again; undefined when it may, or when it is not open yet. */
export function whyOutdated(
  memory: AgentMemory,
  { deviceId, offsetBytes }: Pick<DeviceRun, "deviceId" | "offsetBytes">,
  number: number,
): string | undefined {
  const current = sessionAt(memory, deviceId, offsetBytes);
  if (current !== undefined && (current.number > number || (current.number === number && current.ended)))
    return superseded({ deviceId, ...current }, number, current);
  const { floor } = sessionsOf(memory, deviceId);
  if (current?.number === number || number > floor) return undefined;
  return `session ${number} of device ${deviceId} was forgotten at byte ${offsetBytes}: the floor is ${floor}`;
}

/** Formats why a session number is refused, for error messages. */
function superseded(run: DeviceRun, number: number, current: RememberedSession): string {
  const session = `session ${number} of ${describeRun(run)}`;
  if (current.number === number) {
    if (current.ended) return `${session} has ended`;
    return `${session} was opened for ${describe(current)}`;
  }
  return `${session} is outdated: session ${current.number} was opened later`;
}

function describe(session: RememberedSession): string {
  if (session.purpose !== "disk") return session.purpose === "erase" ? "an erase" : "a label";
  const holder = session.holderHostId === "" ? "no holder" : `holder ${session.holderHostId}`;
  return `disk ${session.diskId} with ${holder}`;
}

/** Returns the highest number that the device's bytes have seen; 0 for none. */
export function highestSession(memory: AgentMemory, deviceId: DeviceId): number {
  return Math.max(lastSession(memory, deviceId)?.number ?? 0, sessionsOf(memory, deviceId).floor);
}

/** Returns the session with the highest number that the device remembers; undefined when it remembers none. */
export function lastSession(memory: AgentMemory, deviceId: DeviceId): RememberedSession | undefined {
  const [first, ...others] = sessionsOf(memory, deviceId).sessions;
  return others.reduce((last, each) => (last !== undefined && last.number >= each.number ? last : each), first);
}

/** Returns whether bytes of the run may be a user's: of a disk, or of one that is being erased. */
export function isBytesOfUser(session: RememberedSession, run: Run): boolean {
  return session.purpose !== "label" && overlaps(session, run);
}

/** Returns whether a host may do I/O on a run of the device. */
export function hasHolder(memory: AgentMemory, deviceId: DeviceId): boolean {
  const sessions = memory.devices.get(deviceId)?.sessions ?? [];
  return sessions.some(({ holderHostId, ended }) => holderHostId !== "" && !ended);
}
