import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import { type ChangedDocument, changesByThemselves, MAX_NAMED, namedIn, type OwnEvent } from "./own-events.js";
import {
  type Device,
  type Disk,
  type EventKind,
  eventKey,
  type Host,
  type RegistryEvent,
  type RegistryTransaction,
} from "./schema.js";

export interface EventLimits {
  /** Events that are kept of what is not routine, and of what is. */
  readonly maxCount: number;
  readonly maxRoutineCount: number;
  readonly maxAgeMs: number;
}

/** What a caller is about. Whoever serves it says how it went, within the transaction. */
export interface Doing {
  readonly user: string;
  readonly action: string;
  readonly routine: boolean;
  answer: string;
  message: string;
  /** Whether an event tells of it. */
  isNoted: boolean;
}

/** The note of a transaction that tells of itself. */
export const IS_NOTED = "is noted";

const MAX_MESSAGE_LENGTH = 1_000;
/** Dropped with one transaction, so that a lower limit is reached step by step. */
const MAX_DROPPED = 16;

/**
 * The end of each transaction that changes something: notes who did what to which hosts, devices and disks. What was done
 * for a caller is one event, which names what changed; what this registry does by itself is told where somebody would ask
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
  const { user, action, routine, answer, message } = doing;
  const named = { user, action, answer, message: message.slice(0, MAX_MESSAGE_LENGTH), ...thingsIn(changed) };
  append(tx, { ...named, ...(routine ? { routine } : {}), atMs: nowMs }, limits);
  doing.isNoted = true;
}

/** Notes something that changed nothing. */
export function noteRefusal(
  tx: RegistryTransaction,
  refused: Omit<RegistryEvent, "eventId" | "atMs" | "routine">,
  limits: EventLimits,
  nowMs: number,
): void {
  const message = refused.message.slice(0, MAX_MESSAGE_LENGTH);
  append(tx, { ...refused, message, atMs: nowMs, routine: true }, limits);
}

/** What was changed; of devices and disks also whose, and where. */
function thingsIn(changed: readonly ChangedDocument[]) {
  const hostIds = new Set<HostId>();
  const deviceIds = new Set<DeviceId>();
  const diskIds = new Set<DiskId>();
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

function append(tx: RegistryTransaction, event: OwnEvent & { readonly atMs: number }, limits: EventLimits): void {
  const [newest] = tx.events.entries({ limit: 1 });
  tx.events.put({ ...event, eventId: (newest?.eventId ?? 0) + 1 });
  const kind: EventKind = event.routine ? "routine" : "other";
  drop(tx, kind, event.routine ? limits.maxRoutineCount : limits.maxCount, event.atMs - limits.maxAgeMs);
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
  readonly user: string | undefined;
  readonly action: string | undefined;
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
    names(event.hostIds, filter.hostId) &&
    names(event.deviceIds, filter.deviceId) &&
    names(event.diskIds, filter.diskId)
  );
}
