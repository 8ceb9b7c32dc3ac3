import { type DiskId, OutdatedError } from "@diskmesh/domain";
import type { AgentMemory, ExportDevice, ExportExtent, ExportMemory, ExportSpec } from "./memory.js";
import { nameOfRun } from "./runs.js";

/** Device and first byte of a part. */
export type Place = Pick<ExportDevice, "deviceId" | "offsetBytes">;

/** Returns a key for the place of a part, unique in a host. */
export function placeOf({ deviceId, offsetBytes = 0 }: Place): string {
  return nameOfRun({ deviceId, offsetBytes });
}

/**
 * Decides an order to serve a disk. Throws OutdatedError when a higher session of the disk was exported or ended
 * before, when this session was ended, or when this session was exported with other devices. These come from a registry
 * whose store was set back and which issues a session number again. The next leader's order has other keys.
 *
 * A higher revision of the session changes limits, lengthens the last extent, appends extents, splits an extent, and
 * moves a part: the extent gets a target, loses it, or is replaced by it. A lower one is a late duplicate.
 */
export function decideExport(memory: AgentMemory, spec: ExportSpec): AgentMemory {
  const known = memory.exports.get(spec.diskId);
  if (known?.spec !== undefined && known.sessionNumber === spec.sessionNumber) {
    const [now = 0, wanted = 0] = [known.spec.revision, spec.revision];
    const [former, later] = wanted < now ? [spec, known.spec] : [known.spec, spec];
    if (!isRevisionOf(former, later))
      throw new OutdatedError(
        `disk ${spec.diskId} is exported in session ${spec.sessionNumber} with other devices: use a new session number`,
        { about: { disk_id: spec.diskId } },
      );
    if (wanted < now) return memory;
    const extents = withReach(memory, spec, known.spec);
    if (wanted > now) return withSpec(memory, { ...spec, extents });
    const isKnown = areReachedAlike(devicesOf({ extents }), devicesOf(known.spec));
    return isKnown ? memory : withSpec(memory, { ...known.spec, extents });
  }
  const highest = known?.sessionNumber ?? memory.exportFloor;
  if (spec.sessionNumber <= highest)
    throw new OutdatedError(
      `the export of disk ${spec.diskId} in session ${spec.sessionNumber} is outdated: session ${highest} was exported or ended later`,
      { about: { disk_id: spec.diskId } },
    );
  return withSpec(memory, { ...spec, extents: withReach(memory, spec, undefined) });
}

/**
 * Ends the exports of a disk up to a session number. Remembers up to `maxEnded` ended exports one by one, and covers
 * older ones by a single floor, which is possible because session numbers increase over the whole fleet.
 */
export function decideUnexport(
  memory: AgentMemory,
  diskId: DiskId,
  sessionNumber: number,
  maxEnded: number,
): AgentMemory {
  const known = memory.exports.get(diskId);
  if (known === undefined ? sessionNumber <= memory.exportFloor : known.sessionNumber > sessionNumber) return memory;
  if (known?.sessionNumber === sessionNumber && known.spec === undefined) return memory;
  return dropOldestEnded(withExport(memory, diskId, { sessionNumber }), maxEnded);
}

function dropOldestEnded(memory: AgentMemory, maxEnded: number): AgentMemory {
  const ended = [...memory.exports].filter(([, known]) => known.spec === undefined);
  if (ended.length <= maxEnded) return memory;
  ended.sort(([, a], [, b]) => a.sessionNumber - b.sessionNumber);
  const dropped = ended.slice(0, ended.length - maxEnded);
  const exports = new Map(memory.exports);
  for (const [diskId] of dropped) exports.delete(diskId);
  const exportFloor = Math.max(memory.exportFloor, ...dropped.map(([, known]) => known.sessionNumber));
  return { ...memory, exports, exportFloor };
}

function withExport(memory: AgentMemory, diskId: DiskId, change: ExportMemory): AgentMemory {
  const exports = new Map(memory.exports);
  exports.set(diskId, change);
  return { ...memory, exports };
}

function withSpec(memory: AgentMemory, spec: ExportSpec): AgentMemory {
  return withExport(memory, spec.diskId, { sessionNumber: spec.sessionNumber, spec });
}

/**
 * Returns the extents of an order with the addresses and keys that are known where the order has none, as when it
 * changes limits. Another leader's order has other keys, and an agent may have another address. Throws OutdatedError
 * when nothing is known, because only a new session brings them.
 */
function withReach(memory: AgentMemory, spec: ExportSpec, known: ExportSpec | undefined): ExportSpec["extents"] {
  const reached = <Device extends ExportDevice>(device: Device): Device => {
    if (device.sessionKey !== "" || device.hostId === memory.hostId) return device;
    const { blockAddress = "", sessionKey = "" } = (known && deviceAt(known, linkOf(device))) ?? {};
    if (sessionKey === "")
      throw new OutdatedError(
        `disk ${spec.diskId} is not exported in session ${spec.sessionNumber}, and the order has no key of device ${device.deviceId}: use a new session number`,
        { about: { disk_id: spec.diskId } },
      );
    return { ...device, blockAddress, sessionKey };
  };
  return spec.extents.map(({ target, ...extent }) => ({
    ...reached(extent),
    ...(target && { target: reached(target) }),
  }));
}

function areReachedAlike(some: readonly ExportDevice[], others: readonly ExportDevice[]): boolean {
  return some.every(
    (each, index) => each.blockAddress === others[index]?.blockAddress && each.sessionKey === others[index]?.sessionKey,
  );
}

/** Returns all devices of an export: those that are its bytes, and those to which parts move. */
export function devicesOf({ extents }: Pick<ExportSpec, "extents">): readonly ExportDevice[] {
  return extents.flatMap((extent) => (extent.target === undefined ? [extent] : [extent, extent.target]));
}

/** Returns whether a part of the export moves to another device. */
export function isMoving({ extents }: ExportSpec): boolean {
  return extents.some(({ target }) => target !== undefined);
}

/**
 * Returns the extents that a disk of this size has, which may lack what a later revision has appended, also to the last
 * extent of then.
 */
export function firstExtents(extents: readonly ExportExtent[], sizeBytes: number): readonly ExportExtent[] | undefined {
  let endBytes = 0;
  for (const [index, extent] of extents.entries()) {
    const startBytes = endBytes;
    endBytes += extent.sizeBytes;
    if (startBytes < sizeBytes && sizeBytes <= endBytes)
      return [...extents.slice(0, index), { ...extent, sizeBytes: sizeBytes - startBytes }];
  }
  return undefined;
}

function deviceAt(spec: ExportSpec, link: Place): ExportDevice | undefined {
  return devicesOf(spec).find((each) => placeOf(linkOf(each)) === placeOf(link));
}

/** Returns the place to which a connection to the device's host leads. */
export function linkOf({ deviceId, offsetBytes = 0, skipBytes = 0 }: ExportDevice): Place {
  return { deviceId, offsetBytes: offsetBytes - skipBytes };
}

/** Returns a device of an export that has this link, as it was ordered last; undefined when that export has ended. */
export function exportDeviceOf(
  memory: AgentMemory,
  { diskId, sessionNumber, ...link }: Pick<ExportSpec, "diskId" | "sessionNumber"> & Place,
): ExportDevice | undefined {
  const spec = memory.exports.get(diskId)?.spec;
  return spec?.sessionNumber === sessionNumber ? deviceAt(spec, link) : undefined;
}

/** Returns the extents, from that index, which have the bytes of an extent of that size, or are its longer successor. */
export function piecesFrom(
  extents: readonly ExportExtent[],
  index: number,
  sizeBytes: number,
): readonly ExportExtent[] {
  let end = index;
  for (let found = 0; found < sizeBytes && end < extents.length; end++) found += extents[end]?.sizeBytes ?? 0;
  return extents.slice(index, end);
}

/**
 * Returns whether a revision may follow: the same disk, with further extents at the end, with extents that were split, and
 * with parts that move. The same revision has the same devices. Addresses and keys are not compared, because they do not
 * decide which bytes the disk has.
 */
function isRevisionOf(former: ExportSpec, later: ExportSpec): boolean {
  return (
    former.blockSizeBytes === later.blockSizeBytes &&
    former.readOnly === later.readOnly &&
    former.exportKind === later.exportKind &&
    ((former.revision ?? 0) === (later.revision ?? 0) ? areSame(former, later) : areFollowedBy(former, later))
  );
}

function areSame({ extents }: ExportSpec, { extents: others }: ExportSpec): boolean {
  return (
    extents.length === others.length &&
    extents.every((extent, index) => {
      const other = others[index];
      return (
        extent.sizeBytes === other?.sizeBytes &&
        isSameDevice(extent, other) &&
        isSameDevice(extent.target, other.target)
      );
    })
  );
}

function areFollowedBy({ extents }: ExportSpec, { extents: later }: ExportSpec): boolean {
  let next = 0;
  return extents.every((extent, index) => {
    const pieces = piecesFrom(later, next, extent.sizeBytes);
    next += pieces.length;
    const spareBytes = pieces.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0) - extent.sizeBytes;
    const isGrown = index === extents.length - 1 && spareBytes > 0;
    if (spareBytes !== 0 && !isGrown) return false;
    return isCutInto(extent, pieces) || isCutInto(extent.target, pieces);
  });
}

/** Returns whether the pieces are the device's bytes, in order. */
function isCutInto(device: ExportDevice | undefined, pieces: readonly ExportExtent[]): boolean {
  if (device === undefined) return false;
  let offsetBytes = device.offsetBytes ?? 0;
  return pieces.every((piece) => {
    const isNext = isSameDevice({ ...device, offsetBytes }, piece);
    offsetBytes += piece.sizeBytes;
    return isNext;
  });
}

/** Returns whether both are the same bytes in the same session, or absent. */
export function isSameDevice(a: ExportDevice | undefined, b: ExportDevice | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return placeOf(a) === placeOf(b) && a.hostId === b.hostId && a.sessionNumber === b.sessionNumber;
}
