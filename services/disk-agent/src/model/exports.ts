import { type DiskId, OutdatedError } from "@diskmesh/domain";
import type { AgentMemory, ExportMemory, ExportSpec } from "./memory.js";

/**
 * Decides an order to serve a disk. Throws OutdatedError when a higher session of the disk was exported or ended
 * before, when this session was ended, or when this session was exported with other devices. The last case occurs when
 * a registry whose store was set back issues a session number again.
 *
 * A higher revision of the session changes limits and appends extents. A lower one is a late duplicate.
 */
export function decideExport(
  memory: AgentMemory,
  spec: ExportSpec,
): { memory: AgentMemory; verdict: "serve" | "same" | "change" } {
  const known = memory.exports.get(spec.diskId);
  if (known?.spec !== undefined && known.sessionNumber === spec.sessionNumber) {
    const [now = 0, wanted = 0] = [known.spec.revision, spec.revision];
    const [former, later] = wanted < now ? [spec, known.spec] : [known.spec, spec];
    if (!isRevisionOf(former, later))
      throw new OutdatedError(
        `disk ${spec.diskId} is exported in session ${spec.sessionNumber} with other devices: use a new session number`,
        { about: { disk_id: spec.diskId } },
      );
    if (wanted <= now) return { memory, verdict: "same" };
    return { memory: withExport(memory, spec.diskId, { sessionNumber: spec.sessionNumber, spec }), verdict: "change" };
  }
  const highest = known?.sessionNumber ?? memory.exportFloor;
  if (spec.sessionNumber <= highest)
    throw new OutdatedError(
      `the export of disk ${spec.diskId} in session ${spec.sessionNumber} is outdated: session ${highest} was exported or ended later`,
      { about: { disk_id: spec.diskId } },
    );
  return { memory: withExport(memory, spec.diskId, { sessionNumber: spec.sessionNumber, spec }), verdict: "serve" };
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

/**
 * Returns whether a revision may follow: the same disk, with further extents at the end. The same revision has the same
 * extents. Addresses are not compared, because an agent whose address changed has the same devices.
 */
function isRevisionOf(former: ExportSpec, later: ExportSpec): boolean {
  const isSameRevision = (former.revision ?? 0) === (later.revision ?? 0);
  return (
    former.blockSizeBytes === later.blockSizeBytes &&
    former.readOnly === later.readOnly &&
    former.exportKind === later.exportKind &&
    (!isSameRevision || former.extents.length === later.extents.length) &&
    former.extents.every((extent, index) => {
      const other = later.extents[index];
      return (
        other !== undefined &&
        extent.deviceId === other.deviceId &&
        extent.hostId === other.hostId &&
        extent.sizeBytes === other.sizeBytes &&
        extent.sessionNumber === other.sessionNumber
      );
    })
  );
}
