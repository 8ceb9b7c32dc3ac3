import type { DeviceId, DiskId, HostId } from "@diskmesh/domain";
import type { Counter } from "../store/counter.js";
import type { Copy, Part } from "../store/disk-parts.js";
import { countingCopy } from "../store/layout.js";
import type { OtherFleet } from "../store/other-fleet.js";
import type { RegistryEvent } from "../store/registry-event.js";
import { eraseSessionOf, isDirty } from "../store/runs.js";
import type { Device, Disk, Host, Start } from "../store/schema.js";

/** An event without its number and time. */
export type OwnEvent = Omit<RegistryEvent, "eventId" | "atMs">;

/** A document before and after a transaction; undefined where it does not exist. */
export interface ChangedDocument {
  readonly tableName: string;
  readonly previous: object | undefined;
  readonly current: object | undefined;
}

const REGISTRY = "disk-registry";

/** Maximum ids of each kind in one event; `more` is set when others exist. */
export const MAX_NAMED = 64;

interface Things {
  readonly hostIds: ReadonlySet<HostId>;
  readonly deviceIds: ReadonlySet<DeviceId>;
  readonly diskIds: ReadonlySet<DiskId>;
}

/** Returns the first ids of each kind, and whether there are more. */
export function namedIn(things: Things): Pick<RegistryEvent, "hostIds" | "deviceIds" | "diskIds" | "more"> {
  const isMore = Object.values(things).some((ids) => ids.size > MAX_NAMED);
  const first = <Id>(ids: ReadonlySet<Id>): Id[] => [...ids].slice(0, MAX_NAMED);
  return {
    hostIds: first(things.hostIds),
    deviceIds: first(things.deviceIds),
    diskIds: first(things.diskIds),
    ...(isMore ? { more: true } : {}),
  };
}

/**
 * Maximum events of one kind per transaction, so that a host with thousands of broken devices does not evict all other
 * events.
 */
const MAX_OF_A_KIND = 8;

/**
 * Returns events for changes without a caller (made by the registry, or reported by an agent) that operators look for.
 */
export function changesByThemselves(changed: readonly ChangedDocument[]): readonly OwnEvent[] {
  const byAction = new Map<string, OwnEvent[]>();
  for (const event of eachChange(changed)) {
    const events = byAction.get(event.action);
    if (events === undefined) byAction.set(event.action, [event]);
    else events.push(event);
  }
  return [...byAction.values()].flatMap((events) => (events.length > MAX_OF_A_KIND ? [together(events)] : events));
}

/** Merges many events of a kind into one, which has the message of the first. */
function together(events: readonly OwnEvent[]): OwnEvent {
  const [first] = events as [OwnEvent];
  const things = namedIn({
    hostIds: new Set(events.flatMap(({ hostIds }) => hostIds)),
    deviceIds: new Set(events.flatMap(({ deviceIds }) => deviceIds)),
    diskIds: new Set(events.flatMap(({ diskIds }) => diskIds)),
  });
  return { ...first, ...things, message: `${events.length} times at once; the first: ${first.message}` };
}

function eachChange(changed: readonly ChangedDocument[]): readonly OwnEvent[] {
  return changed.flatMap(({ tableName, previous, current }): readonly OwnEvent[] => {
    if (current === undefined || current === previous) return [];
    switch (tableName) {
      case "hosts":
        return ofHost(previous as Host | undefined, current as Host);
      case "devices":
        return ofDevice(previous as Device | undefined, current as Device);
      case "disks":
        return ofDisk(previous as Disk | undefined, current as Disk);
      case "counters":
        return ofCounter(previous as Counter | undefined, current as Counter);
      case "starts":
        return [own("LeaderStarted", {}, `tablet generation ${(current as Start).tabletGeneration}`)];
      case "fleets":
        return [own("OtherFleetHeard", {}, `incarnation ${(current as OtherFleet).incarnation}`)];
      default:
        return [];
    }
  });
}

function own(
  action: string,
  things: Partial<Pick<RegistryEvent, "hostIds" | "deviceIds" | "diskIds" | "routine">>,
  message: string,
  user = REGISTRY,
): OwnEvent {
  return { user, action, hostIds: [], deviceIds: [], diskIds: [], ...things, answer: "", message };
}

function ofHost(before: Host | undefined, host: Host): readonly OwnEvent[] {
  const things = { hostIds: [host.hostId] };
  if (before === undefined) return [own("HostRegistered", things, `its agent is at ${host.address}`)];
  const events: OwnEvent[] = [];
  if (host.agentWarning !== undefined && host.agentWarning !== before.agentWarning)
    events.push(own("HostWarning", things, host.agentWarning));
  if (before.state === host.state) return events;
  if (host.state === "UNAVAILABLE") events.push(own("HostUnavailable", things, host.stateMessage));
  else if (before.state === "UNAVAILABLE") events.push(own("HostBack", things, host.stateMessage));
  return events;
}

function ofDevice(before: Device | undefined, device: Device): readonly OwnEvent[] {
  const things = { hostIds: [device.hostId], deviceIds: [device.deviceId] };
  const events: OwnEvent[] = [];
  const wasInError = before?.health === "ERROR";
  if (device.health === "ERROR" && !wasInError) events.push(own("DeviceError", things, device.healthMessage));
  if (device.health !== "ERROR" && wasInError) events.push(own("DeviceHealed", things, device.healthMessage));
  if (before !== undefined && eraseSessionOf(before) !== 0 && !isDirty(device))
    events.push(own("DeviceErased", { ...things, routine: true }, ""));
  if (before?.attachState === "CLOSING" && device.attachState === "DETACHED" && !device.detachConfirmed)
    events.push(own("DetachUnconfirmed", things, "its host has not confirmed the close"));
  if (device.unknownSession !== undefined && before?.unknownSession === undefined)
    events.push(own("UnknownDiskFound", things, `session ${device.unknownSession.sessionNumber} was never issued`));
  return events;
}

function ofDisk(before: Disk | undefined, disk: Disk): readonly OwnEvent[] {
  const { diskId, fence } = disk;
  const moves =
    before === undefined ? [] : disk.parts.flatMap((part) => ofPart(diskId, formerPart(part, before, disk), part));
  const events = [...moves, ...ofProblem(before, disk)];
  if (fence === undefined || fence.atMs === before?.fence?.atMs) return events;
  return [...events, own("DiskFenced", { diskIds: [diskId], hostIds: [fence.hostId] }, fence.reason, fence.by)];
}

function ofProblem(before: Disk | undefined, { diskId, publication }: Disk): readonly OwnEvent[] {
  const former = before?.publication;
  // A problem that ends with its session has not been mended.
  if (publication === undefined || former?.sessionNumber !== publication.sessionNumber) return [];
  const { problem } = publication;
  if ((former.problem === undefined) === (problem === undefined)) return [];
  const things = { diskIds: [diskId], hostIds: [publication.hostId] };
  return [problem === undefined ? own("DiskUsable", things, "") : own("DiskUnusable", things, problem.message)];
}

/** Returns the part as it was; undefined for an added part. A part that was split was at the place of the parts it became. */
function formerPart(part: Part, before: Disk, disk: Disk): Part | undefined {
  if (before.parts.length === disk.parts.length) return before.parts[disk.parts.indexOf(part)];
  const { deviceId, first } = countingCopy(part);
  const isThere = (copy: Copy): boolean => copy.deviceId === deviceId && copy.first === first;
  return before.parts.find((each) => each === part) ?? before.parts.find((each) => isThere(countingCopy(each)));
}

function ofPart(diskId: DiskId, before: Part | undefined, part: Part): readonly OwnEvent[] {
  if (before === undefined || before === part) return [];
  const event = (action: string, copies: readonly (Copy | undefined)[], message: string): OwnEvent =>
    own(action, { diskIds: [diskId], deviceIds: copies.flatMap((copy) => copy?.deviceId ?? []) }, message);
  const copyIn = ({ copies }: Part, state: Copy["state"]) => copies.find((copy) => copy.state === state);
  const [source, now] = [copyIn(before, "COUNTS"), copyIn(part, "COUNTS")];
  if (source?.deviceId !== now?.deviceId)
    return [event("MoveCutOver", [source, now], `from device ${source?.deviceId} to device ${now?.deviceId}`)];
  const [was, is] = [before.move, part.move];
  if (was !== undefined && is === undefined) return [event("MoveCancelled", [source], "")];
  if ((is?.attempts ?? 0) > (was?.attempts ?? 0))
    return [event("MoveFailed", [source, copyIn(before, "COPYING")], is?.lastError ?? "")];
  const target = copyIn(part, "COPYING");
  if (target === undefined || copyIn(before, "COPYING") !== undefined) return [];
  return [event("MoveBegun", [source, target], `from device ${source?.deviceId} to device ${target.deviceId}`)];
}

function ofCounter(before: Counter | undefined, { name, gaps }: Counter): readonly OwnEvent[] {
  const gap = gaps?.at(-1);
  if (gap === undefined || gap === before?.gaps?.at(-1)) return [];
  return [own("NumbersRaised", {}, `${name} goes on above ${gap.upTo}; ${gap.above} was the last that was given`)];
}
