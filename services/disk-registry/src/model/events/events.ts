import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { type EventKind, eventKey, type RegistryEvent } from "../store/registry-event.js";
import type { Device, Disk, Host, RegistryTransaction } from "../store/schema.js";
import { type ChangedDocument, changesByThemselves, MAX_NAMED, namedIn, type OwnEvent } from "./own-events.js";

export interface EventLimits {
  /** Maximum events kept, separately for routine and other events. */
  readonly maxCount: number;
  readonly maxAgeMs: number;
}

/** A caller's action. The handler sets the result within the transaction. */
export interface Doing {
  readonly user: string;
  readonly action: string;
  readonly requestId: string;
  /** Undefined when the call is not traced. */
  readonly traceId: string | undefined;
  readonly routine: boolean;
  answer: string;
  message: string;
  /** Id of the event that records the action; 0 before it exists. */
  eventId: number;
}

/** Work of the registry or of an agent that is recorded in the history of changes, for example "orders". */
export interface OwnWork {
  readonly work: string;
}

/** Key that marks a transaction which records its own event. */
export const IS_NOTED = "is noted";

/** Argument of a transaction that says who makes the changes. */
export type Note = Doing | OwnWork | typeof IS_NOTED | undefined;

const MAX_MESSAGE_LENGTH = 1_000;
/** Maximum events dropped per transaction. A lowered limit takes effect over several transactions. */
const MAX_DROPPED = 16;

/**
 * Runs at the end of each transaction that changes something, and stores an event with the caller and the changed
 * hosts, devices and disks. A caller's action is one event over all its transactions. A change that the registry makes
 * by itself gets an event only if operators look for it.
 */
export function noteEvents(
  tx: RegistryTransaction,
  changed: readonly ChangedDocument[],
  doing: Note,
  limits: EventLimits,
  nowMs: number,
): void {
  if (doing === IS_NOTED) return;
  if (doing === undefined || "work" in doing) {
    for (const event of changesByThemselves(changed)) append(tx, { ...event, atMs: nowMs }, limits);
    return;
  }
  const earlier = doing.eventId === 0 ? undefined : tx.events.get(eventKey(doing.eventId));
  const event: OwnEvent = {
    ...told(doing),
    ...thingsIn(changed, earlier),
    ...(doing.routine ? { routine: true } : {}),
  };
  if (earlier === undefined) doing.eventId = append(tx, { ...event, atMs: nowMs }, limits);
  else tx.events.put({ ...earlier, ...event });
}

/** Returns the cause of a transaction's changes, for their history. */
export function causeOf(note: Note): string {
  if (note === undefined || note === IS_NOTED) return "disk-registry";
  return "work" in note ? `disk-registry: ${note.work}` : `${note.user}: ${note.action}, request ${note.requestId}`;
}

/** Returns the fields of a call in its event. */
export function told({ user, action, answer, message, requestId, traceId }: Doing) {
  const said = { user, action, answer, message: message.slice(0, MAX_MESSAGE_LENGTH), requestId };
  return { ...said, ...(traceId === undefined ? {} : { traceId }) };
}

/** Records a caller's action that changed nothing. */
export function noteWithoutChange(
  tx: RegistryTransaction,
  event: Omit<RegistryEvent, "eventId" | "atMs">,
  limits: EventLimits,
  nowMs: number,
): void {
  append(tx, { ...event, atMs: nowMs }, limits);
}

/**
 * Returns the ids of the changed things, and of those of an earlier transaction of the same call. A device also names
 * its host, and a disk the hosts of its publication.
 */
function thingsIn(changed: readonly ChangedDocument[], earlier: RegistryEvent | undefined) {
  const hostIds = new Set<HostId>(earlier?.hostIds);
  const deviceIds = new Set<DeviceId>(earlier?.deviceIds);
  const diskIds = new Set<DiskId>(earlier?.diskIds);
  for (const { tableName, previous, current } of changed) {
    if (current === previous) continue;
    const document = current ?? previous;
    if (tableName === "hosts") hostIds.add((document as Host).hostId);
    if (tableName === "devices") {
      const device = document as Device;
      deviceIds.add(device.deviceId);
      hostIds.add(device.hostId);
    }
    if (tableName === "disks") {
      const disk = document as Disk;
      diskIds.add(disk.diskId);
      for (const each of [previous, current] as (Disk | undefined)[])
        if (each?.publication !== undefined) hostIds.add(each.publication.hostId);
    }
  }
  return namedIn({ hostIds, deviceIds, diskIds });
}

function append(tx: RegistryTransaction, event: OwnEvent & { readonly atMs: number }, limits: EventLimits): number {
  const [newest] = tx.events.entries({ limit: 1 });
  const eventId = (newest?.eventId ?? 0) + 1;
  tx.events.put({ ...event, eventId });
  const kind: EventKind = event.routine ? "routine" : "other";
  drop(tx, kind, limits.maxCount, event.atMs - limits.maxAgeMs);
  return eventId;
}

function drop(tx: RegistryTransaction, kind: EventKind, maxCount: number, afterMs: number): void {
  for (let dropped = 0; dropped < MAX_DROPPED; dropped++) {
    const oldest = tx.events.last("byKind", kind);
    if (oldest === undefined || (tx.events.count("byKind", kind) <= maxCount && oldest.atMs >= afterMs)) return;
    tx.events.delete(eventKey(oldest.eventId));
  }
}

/** Filter for events. Undefined matches all. */
export interface EventFilter {
  readonly hostId: HostId | undefined;
  readonly deviceId: DeviceId | undefined;
  readonly diskId: DiskId | undefined;
  /** A host, device or disk id. */
  readonly thing: string | undefined;
  readonly user: string | undefined;
  readonly action: string | undefined;
  readonly answer: string | undefined;
  readonly requestId: string | undefined;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Returns whether the event matches. An event with a shortened list of things matches any id of that kind. */
export function isAskedFor(filter: EventFilter, event: RegistryEvent): boolean {
  const names = (ids: readonly string[], id: string | undefined): boolean =>
    id === undefined || ids.includes(id) || (event.more === true && ids.length === MAX_NAMED);
  return (
    event.atMs >= filter.fromMs &&
    event.atMs < filter.untilMs &&
    (filter.user === undefined || event.user === filter.user) &&
    (filter.action === undefined || event.action === filter.action) &&
    (filter.answer === undefined || event.answer === filter.answer) &&
    (filter.requestId === undefined || event.requestId === filter.requestId) &&
    (filter.thing === undefined ||
      [event.hostIds, event.deviceIds, event.diskIds].some((ids) => names(ids, filter.thing))) &&
    names(event.hostIds, filter.hostId) &&
    names(event.deviceIds, filter.deviceId) &&
    names(event.diskIds, filter.diskId)
  );
}
