import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { type EventKind, eventKey, type RegistryEvent } from "../store/registry-event.js";
import type { Device, Disk, Host, RegistryTransaction } from "../store/schema.js";
import { type ChangedDocument, changesByThemselves, MAX_NAMED, namedIn, type OwnEvent } from "./own-events.js";

export interface EventLimits {
  /** Events that are kept of what is not routine, and of what is. */
  readonly maxCount: number;
  readonly maxAgeMs: number;
}

/** What a caller is about. Whoever serves it says how it went, within the transaction. */
export interface Doing {
  readonly user: string;
  readonly action: string;
  readonly requestId: string;
  /** Undefined where nobody traces. */
  readonly traceId: string | undefined;
  readonly routine: boolean;
  answer: string;
  message: string;
  /** The event that tells of it; 0 for none yet. */
  eventId: number;
}

/** The note of a transaction that tells of itself. */
export const IS_NOTED = "is noted";

const MAX_MESSAGE_LENGTH = 1_000;
/** Dropped with one transaction, so that a lower limit is reached step by step. */
const MAX_DROPPED = 16;

/**
 * The end of each transaction that changes something: notes who did what to which hosts, devices and disks. What was done
 * for a caller is one event, however many transactions it takes, which names what changed; what this registry does by itself is told where somebody would ask
 * for it.
 */
export function noteEvents(
  tx: RegistryTransaction,
  changed: readonly ChangedDocument[],
  doing: Doing | typeof IS_NOTED | undefined,
  limits: EventLimits,
  nowMs: number,
): void {
  if (doing === IS_NOTED) return;
  if (doing === undefined) {
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

/** Of a call, as its event has it. */
export function told({ user, action, answer, message, requestId, traceId }: Doing) {
  const said = { user, action, answer, message: message.slice(0, MAX_MESSAGE_LENGTH), requestId };
  return { ...said, ...(traceId === undefined ? {} : { traceId }) };
}

/** Notes something that changed nothing. */
export function noteWithoutChange(
  tx: RegistryTransaction,
  event: Omit<RegistryEvent, "eventId" | "atMs">,
  limits: EventLimits,
  nowMs: number,
): void {
  append(tx, { ...event, atMs: nowMs }, limits);
}

/** What was changed, beside what an earlier transaction did; of devices and disks also whose, and where. */
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

/** Which events a caller wants to see. Undefined: any. */
export interface EventFilter {
  readonly hostId: HostId | undefined;
  readonly deviceId: DeviceId | undefined;
  readonly diskId: DiskId | undefined;
  /** Whatever it is. */
  readonly thing: string | undefined;
  readonly user: string | undefined;
  readonly action: string | undefined;
  readonly answer: string | undefined;
  readonly requestId: string | undefined;
  readonly fromMs: number;
  readonly untilMs: number;
}

/** An event that names not all that it changed is shown to whoever asks for a thing of that kind. */
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
