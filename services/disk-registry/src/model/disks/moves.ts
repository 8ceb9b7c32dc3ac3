import type { DiskId } from "@diskmesh/domain";
import { nextSessionNumber } from "../devices/counters.js";
import { whyNotTold } from "../devices/orders.js";
import { whyElsewhere, whyUnknown } from "../devices/unknown-disks.js";
import type { Copy, Move, Part } from "../store/disk-parts.js";
import {
  copyAt,
  countingCopy,
  freeCopy,
  leftBy,
  offsetOf,
  partSizeBytes,
  takeSpace,
  withPart,
  withSplit,
} from "../store/layout.js";
import { holds } from "../store/runs.js";
import {
  type Device,
  type Disk,
  type Host,
  isAway,
  isChangePending,
  type Publication,
  type RegistryTables,
  type RegistryTransaction,
} from "../store/schema.js";
import { type Space, sizesOn } from "../store/slices.js";
import { withNextRevision } from "./export-changes.js";

/** Failed tries after which another target is chosen. */
const TRIES_OF_TARGET = 3;
const MAX_ERROR_LENGTH = 2_048;

/** A part that moves, with the devices and hosts that are needed now. */
export interface Moving {
  readonly disk: Disk;
  readonly index: number;
  readonly part: Part;
  readonly move: Move;
  readonly sizeBytes: number;
  readonly source: Device;
  /** Start of the part on the source. */
  readonly sourceOffsetBytes: number;
}

/** A part with its target, and the session of the present try. */
export interface Copying extends Moving {
  readonly target: Device;
  /** Start of the part on the target. */
  readonly targetOffsetBytes: number;
  readonly sessionNumber: number;
  readonly sourceHost: Host;
  readonly targetHost: Host;
}

export interface Mirroring extends Copying {
  readonly publication: Publication;
  readonly holder: Host;
}

/** The next step of a disk's moves. */
export type MoveStep =
  | { readonly kind: "none" }
  /** Nothing can be done now. */
  | { readonly kind: "wait"; readonly why: string }
  /** `others`: parts to try when there is no room for this one. */
  | ({ readonly kind: "choose"; readonly others: readonly Moving[] } & Moving)
  | { readonly kind: "give_up"; readonly why: string; readonly index: number }
  | { readonly kind: "begin"; readonly index: number }
  | ({ readonly kind: "copy" } & Copying)
  | ({ readonly kind: "mirror" } & Mirroring);

/** Returns the next step of the disk's moves: of one part at a time. Changes nothing. */
export function planMove(tables: RegistryTables, diskId: DiskId): MoveStep {
  const disk = tables.disks.get(diskId);
  const index = disk === undefined ? -1 : begunOrFirst(disk);
  const part = disk?.parts[index];
  if (disk === undefined || part === undefined) return { kind: "none" };
  const [moving, ...others] = movingParts(tables, disk, index);
  if (moving === undefined) {
    const why = whyUnreadable(tables, disk, part) ?? "";
    return hasTarget(part) ? { kind: "give_up", why, index } : { kind: "wait", why };
  }
  const never = whyNeverServed(tables, disk);
  if (never !== undefined)
    return hasTarget(part) ? { kind: "give_up", why: never, index } : { kind: "wait", why: never };
  const { source } = moving;
  const copying = moving.part.copies.find(({ state }) => state === "COPYING");
  if (copying === undefined) return { kind: "choose", ...moving, others };
  const target = tables.devices.get(copying.deviceId);
  const unfit = whyUnfit(tables, disk, target);
  if (target === undefined || unfit !== undefined) return { kind: "give_up", why: unfit ?? "", index };
  const { publication } = disk;
  const busy = publication && whyBusy(publication);
  const { sessionNumber } = copying;
  // A holder may hold requests back until it hears which copy counts, so it is asked even when the source is away.
  const isMirrored = publication !== undefined && busy === undefined && sessionNumber !== undefined;
  const hosts = hostsOf(tables, disk, source, target, isMirrored);
  if ("why" in hosts) return isLost(tables, source) ? { kind: "give_up", ...hosts, index } : { kind: "wait", ...hosts };
  if (busy !== undefined) return { kind: "wait", why: busy };
  if (sessionNumber === undefined) return { kind: "begin", index };
  const order = { ...moving, ...hosts, target, targetOffsetBytes: offsetOf(tables, disk, copying), sessionNumber };
  if (publication === undefined) return { kind: "copy", ...order };
  const holder = tables.hosts.get(publication.hostId);
  const whyNot = holder === undefined ? `host ${publication.hostId} was purged` : whyNotTold(holder);
  if (holder === undefined || whyNot !== undefined) return { kind: "wait", why: whyNot ?? "" };
  return { kind: "mirror", ...order, publication, holder };
}

export const hasTarget = ({ copies }: Part): boolean => copies.some(({ state }) => state === "COPYING");

/** Returns the index of the part with a target, or else of the first that is to move; -1 for none. */
function begunOrFirst({ parts }: Disk): number {
  const begun = parts.findIndex(hasTarget);
  return begun >= 0 ? begun : parts.findIndex(({ move }) => move !== undefined);
}

/** Returns the part with a target alone, or else all parts that are to move and can be read. */
function movingParts(tables: RegistryTables, disk: Disk, first: number): readonly Moving[] {
  const isAlone = disk.parts.some(hasTarget);
  return disk.parts.flatMap((part, index) => {
    const source = tables.devices.get(countingCopy(part).deviceId);
    if (part.move === undefined || (isAlone && index !== first) || source === undefined) return [];
    if (!holds(source, disk.diskId)) return [];
    if (!hasTarget(part) && whyUnreadable(tables, disk, part) !== undefined) return [];
    const sourceOffsetBytes = offsetOf(tables, disk, countingCopy(part));
    const sizeBytes = partSizeBytes(tables, part);
    return { disk, index, part, move: part.move, source, sourceOffsetBytes, sizeBytes };
  });
}

/** Returns why the part's bytes cannot be copied now, so that it gets no target; undefined when they may be. */
function whyUnreadable(tables: RegistryTables, { diskId }: Disk, part: Part): string | undefined {
  const { deviceId } = countingCopy(part);
  const source = tables.devices.get(deviceId);
  const host = source && tables.hosts.get(source.hostId);
  if (!holds(source, diskId) || host === undefined) return `its device ${deviceId} was purged, and its bytes are lost`;
  return isAway(host) ? `its device ${deviceId} cannot be read: ${host.stateMessage}` : undefined;
}

/** Returns why the disk's host can never take up its publication, so that a move in it keeps no target. */
function whyNeverServed(tables: RegistryTables, disk: Disk): string | undefined {
  const { diskId, parts, publication } = disk;
  const isWanted = publication?.state === "PUBLISHING" || isChangePending(publication);
  if (!isWanted) return undefined;
  const lost = parts.find((part) => !holds(tables.devices.get(countingCopy(part).deviceId), diskId));
  return lost && whyUnreadable(tables, disk, lost);
}

/** Returns whether the source is on a host that nobody expects back, so that its move keeps no target. */
function isLost(tables: RegistryTables, { hostId }: Device): boolean {
  const host = tables.hosts.get(hostId);
  return host !== undefined && (host.state === "DEAD" || (isAway(host) && host.lossNoted === true));
}

/** Returns why the device is no target any longer; undefined while it is. */
function whyUnfit(tables: RegistryTables, { diskId }: Disk, target: Device | undefined): string | undefined {
  if (target === undefined || !holds(target, diskId)) return "the target was purged";
  const { deviceId, hostId, health, healthMessage, attachState } = target;
  const host = tables.hosts.get(hostId);
  const name = `the target, device ${deviceId} on host ${hostId},`;
  if (health !== "ONLINE") return `${name} is ${health}: ${healthMessage}`;
  if (whyUnknown(target) !== undefined) return `${name} is held by an unknown disk`;
  if (attachState !== "ATTACHED" && attachState !== "ATTACHING") return `${name} is ${attachState}`;
  if (target.removalRequested || host?.removalRequested) return `${name} is to be removed`;
  if (host === undefined || isAway(host)) return `${name} is on a host that is ${host?.state ?? "gone"}`;
  return undefined;
}

function hostsOf(
  tables: RegistryTables,
  { diskId }: Disk,
  source: Device,
  target: Device,
  isMirrored: boolean,
): { readonly sourceHost: Host; readonly targetHost: Host } | { readonly why: string } {
  const [sourceHost, targetHost] = [tables.hosts.get(source.hostId), tables.hosts.get(target.hostId)];
  if (sourceHost === undefined || targetHost === undefined) return { why: `host ${source.hostId} was purged` };
  const elsewhere = whyElsewhere(tables, diskId);
  if (elsewhere !== undefined) return { why: elsewhere };
  if (isMirrored) return { sourceHost, targetHost };
  const whyNot = whyNotTold(sourceHost) ?? whyNotTold(targetHost) ?? whyUnknown(source);
  if (whyNot !== undefined) return { why: whyNot };
  const closed = [source, target].find(({ attachState }) => attachState !== "ATTACHED");
  if (closed !== undefined) return { why: `device ${closed.deviceId} is ${closed.attachState}` };
  return { sourceHost, targetHost };
}

function whyBusy(publication: Publication): string | undefined {
  const { state, hostId } = publication;
  if (state === "PUBLISHING") return `the disk is being published to host ${hostId}`;
  if (state === "UNPUBLISHING") return `the disk is being unpublished from host ${hostId}`;
  return isChangePending(publication) ? `host ${hostId} has not confirmed the last change of the disk` : undefined;
}

/**
 * Makes the spaces targets of the part's move, each of a part of its own when there are several. Their contents do not
 * count. All are taken at once, because a run is free only when all its parts have left it, so that two moves that each
 * lack a target would wait for each other.
 */
export function beginTarget(
  tx: RegistryTransaction,
  { disk, index, sizeBytes }: Moving,
  targets: readonly Space[],
): void {
  let begun = targets.length === 1 ? disk : withNextRevision(withSplit(disk, index, sizesOn(targets, sizeBytes)));
  for (const [at, target] of targets.entries()) {
    takeSpace(tx, target, disk.diskId);
    const copy = copyAt(target, "COPYING");
    begun = withPart(begun, index + at, (part) => ({ ...part, copies: [...part.copies, copy] }));
  }
  tx.disks.put(begun);
}

/**
 * Begins a try, from the first byte, in a new session. Between agents it is the session of both devices, which fences
 * off all earlier ones. A host that serves the disk gets the target with the next revision.
 */
export function beginTry(tx: RegistryTransaction, diskId: DiskId): boolean {
  const step = planMove(tx, diskId);
  const disk = tx.disks.get(diskId);
  if (step.kind !== "begin" || disk === undefined) return false;
  const sessionNumber = nextSessionNumber(tx);
  const begun = withPart(disk, step.index, (part) => ({
    ...part,
    copies: part.copies.map((copy) => (copy.state === "COPYING" ? { ...copy, sessionNumber } : copy)),
  }));
  tx.disks.put(withNextRevision({ ...begun, lastSessionNumber: sessionNumber }));
  return true;
}

/**
 * Has the target count, after its agent has confirmed a whole copy in this session. Any session in between, of a
 * publication for example, has made the copy worthless: then nothing changes.
 */
export function completeCopy(tx: RegistryTransaction, seen: Copying): boolean {
  const disk = tx.disks.get(seen.disk.diskId);
  if (disk === undefined || !isSameTry(disk, seen)) return false;
  if (disk.publication !== undefined || disk.lastSessionNumber !== seen.sessionNumber) return false;
  const left = disk.parts.slice(seen.index, seen.index + 1).map(countingCopy);
  tx.disks.put(leftBy(tx, disk, left, onTarget({ ...seen, disk })));
  return true;
}

/** Marks how far the copy of a disk that is not in use is. Changes nothing when another session came in between. */
export function noteCopied(tx: RegistryTransaction, seen: Copying, copiedBytes: number): void {
  const disk = tx.disks.get(seen.disk.diskId);
  const { sessionNumber: session } = seen;
  if (disk === undefined || disk.publication !== undefined || disk.lastSessionNumber !== session) return;
  if (!isSameTry(disk, seen)) return;
  const mark = { copiedBytes, sourceSession: session, targetSession: session };
  const marked = (copy: Copy): Copy => (copy.state === "COPYING" ? { ...copy, mark } : copy);
  tx.disks.put(withPart(disk, seen.index, (part) => ({ ...part, copies: part.copies.map(marked) })));
}

/** Returns the disk once the target of the copy counts. */
export function onTarget(seen: Copying): Disk {
  return withPart(seen.disk, seen.index, (part) => {
    const { sessionNumber: _, mark: __, ...target } = copyingCopy(part);
    return movedTo([{ ...target, state: "COUNTS" }], part, seen);
  });
}

/**
 * Has the target count, after the holder has said that both copies have every acknowledged write. The source leaves
 * once the holder has confirmed the next revision. Changes nothing when the holder has said it in an earlier session or
 * revision.
 */
export function cutOver(tx: RegistryTransaction, seen: Mirroring): boolean {
  const disk = tx.disks.get(seen.disk.diskId);
  if (disk === undefined || !isSameTry(disk, seen) || !isSamePublication(disk, seen)) return false;
  const moved = withPart(disk, seen.index, (part) => {
    const { sessionNumber: _, ...source } = countingCopy(part);
    const { mark: __, ...target } = copyingCopy(part);
    const copies: Copy[] = [
      { ...target, state: "COUNTS" },
      { ...source, state: "LEAVING" },
    ];
    return movedTo(copies, part, seen);
  });
  tx.disks.put(withNextRevision(moved));
  return true;
}

export function copyingCopy({ copies }: Part): Copy {
  return copies.find(({ state }) => state === "COPYING") as Copy;
}

function movedTo(copies: readonly Copy[], { move: _, staysOn: __, ...part }: Part, { sizeBytes }: Copying): Part {
  return { ...part, sizeBytes, copies };
}

function isSamePublication({ publication }: Disk, { publication: seen }: Mirroring): boolean {
  return (
    publication?.state === "PUBLISHED" &&
    publication.hostId === seen.hostId &&
    publication.sessionNumber === seen.sessionNumber &&
    publication.revision === seen.revision
  );
}

/** Returns whether the disk still has this try of the move. */
function isSameTry(disk: Disk, { index, source, target, sessionNumber }: Copying): boolean {
  const part = disk.parts[index];
  if (part?.move === undefined || countingCopy(part).deviceId !== source.deviceId) return false;
  const copying = part.copies.find(({ state }) => state === "COPYING");
  return copying?.deviceId === target.deviceId && copying.sessionNumber === sessionNumber;
}

/** Ends a try that failed. The next one begins anew, after some failures with another target. */
export function failTry(tx: RegistryTransaction, seen: Copying, error: string, options?: FailureOptions): void {
  const disk = tx.disks.get(seen.disk.diskId);
  if (disk !== undefined && isSameTry(disk, seen)) failMove(tx, disk, seen.index, error, options);
}

/** Gives up the target of the part's move, and records why. */
export function giveUpTarget(tx: RegistryTransaction, diskId: DiskId, index: number, why: string): void {
  const step = planMove(tx, diskId);
  const disk = tx.disks.get(diskId);
  if (disk !== undefined && step.kind === "give_up" && step.index === index)
    failMove(tx, disk, index, why, { isOfTarget: true });
}

/** Ends the try whose target an agent refused, in the publication's session and revision; a later one changes nothing. */
export function failMirror(
  tx: RegistryTransaction,
  diskId: DiskId,
  seen: Publication,
  error: string,
  options?: { readonly isOfTarget?: boolean },
): void {
  const disk = tx.disks.get(diskId);
  const now = disk?.publication;
  if (disk === undefined || now?.sessionNumber !== seen.sessionNumber || now.revision !== seen.revision) return;
  const index = disk.parts.findIndex(({ copies }) =>
    copies.some(({ state, sessionNumber }) => state === "COPYING" && sessionNumber !== undefined),
  );
  if (index >= 0) failMove(tx, disk, index, error, options);
}

function failMove(
  tx: RegistryTransaction,
  disk: Disk,
  index: number,
  error: string,
  { isOfTarget = false, goesOn = false }: FailureOptions = {},
): void {
  const attempts = (disk.parts[index]?.move?.attempts ?? 0) + 1;
  const isGivenUp = isOfTarget || attempts % TRIES_OF_TARGET === 0;
  const retried = goesOn ? disk : withoutSession(disk, index);
  const ended = isGivenUp ? withoutTarget(tx, disk, index) : retried;
  const lastError = error.slice(0, MAX_ERROR_LENGTH);
  tx.disks.put(
    withPart(ended, index, (part) => ({ ...part, move: part.move && { ...part.move, attempts, lastError } })),
  );
}

interface FailureOptions {
  readonly isOfTarget?: boolean;
  /** True when the next try goes on in the same session. Only a try of a disk that is not in use can. */
  readonly goesOn?: boolean;
}

/** Returns the disk without the part's target, which is freed. A host that writes to the target gets a new revision. */
export function withoutTarget(tx: RegistryTransaction, disk: Disk, index: number): Disk {
  const target = disk.parts[index]?.copies.find(({ state }) => state === "COPYING");
  if (target === undefined) return disk;
  freeCopy(tx, disk, target);
  const rest = withPart(disk, index, (part) => ({
    ...part,
    copies: part.copies.filter(({ state }) => state !== "COPYING"),
  }));
  return target.sessionNumber === undefined ? rest : withNextRevision(rest);
}

function withoutSession(disk: Disk, index: number): Disk {
  const ended = withPart(disk, index, (part) => ({
    ...part,
    copies: part.copies.map((copy) => {
      const { sessionNumber: _, mark: __, ...anew } = copy;
      return copy.state === "COPYING" ? anew : copy;
    }),
  }));
  return withNextRevision(ended);
}
