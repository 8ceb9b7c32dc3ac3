import type { CopyRecord, DeviceId, HostId } from "@diskmesh/domain";
import { type CopiedDisk, type CopiedPart, type Copy, copyOf } from "./copied-disk.js";
import { beginFence } from "./publications.js";

/** Records of devices by their ids; undefined for a device that was heard and has none. */
export type HeardRecords = ReadonlyMap<DeviceId, CopyRecord | undefined>;

/** `highestNumber`: of what was heard; the sessions' counter goes on above it, also before a person speaks. */
export type Proof =
  | { readonly is: "proven"; readonly disk: CopiedDisk; readonly highestNumber: number }
  /**
   * Not published until these were heard, or until a person says which copies count. `disk`: still unproven, with the copies
   * that the highest record names, so that a person can speak of them; the same disk when nothing was learnt.
   */
  | {
      readonly is: "waits";
      readonly for: readonly DeviceId[];
      readonly disk: CopiedDisk;
      readonly highestNumber: number;
    };

/**
 * Returns the disk of a store that may be old: a session for nobody is opened on all devices that may have its bytes,
 * and nobody reads it before their records were heard. A holder of a lost order would go on to change them otherwise.
 */
export function asUnproven(disk: CopiedDisk, hostId: HostId, session: number): CopiedDisk {
  const publication = disk.publication ?? { hostId, state: "PUBLISHED", session: 0, revision: 0, confirmedRevision: 0 };
  const fenced = beginFence({ ...disk, publication: { ...publication, state: "PUBLISHED" } }, session);
  return { ...fenced, isUnproven: true };
}

/**
 * Returns whether the record, seen before its device was asked for the session of an unproven disk, shows that the number was
 * issued before. A store that was copied back counts on from an old number: the device would grant it, and the holder that has
 * it go on. Take a higher one.
 */
export function isIssuedBefore({ diskId, publication }: CopiedDisk, record: CopyRecord | undefined): boolean {
  return record?.diskId === diskId && publication !== undefined && record.session >= publication.session;
}

/**
 * Proves which copies count, by the records of the devices that have granted the present session. All devices must have
 * been heard that the highest known set of each part names, in a record or in the store. Two successive sets have a copy
 * in common whose record names the later one, so a set of which all were heard is the last one.
 */
export function prove(disk: CopiedDisk, heard: HeardRecords): Proof {
  const missing: DeviceId[] = [];
  let highestNumber = disk.lastSession;
  const known: CopiedPart[] = [];
  const parts = disk.parts.map((part, index) => {
    const records: OwnRecords = new Map();
    for (const [deviceId, record] of heard)
      if (record?.diskId === disk.diskId && record.part === index) records.set(deviceId, record);
    for (const { session, layout } of records.values()) highestNumber = Math.max(highestNumber, session, layout);
    const proven = highestOf(part, records);
    known.push(withoutEmpty(proven, records, heard));
    missing.push(...proven.copies.filter((copy) => !isAnswered(copy, records, heard)).map(({ deviceId }) => deviceId));
    return withoutOthers(proven, records);
  });
  if (missing.length > 0) {
    const isKnown = known.every((part, index) => part === disk.parts[index]);
    return { is: "waits", for: missing, disk: isKnown ? disk : { ...disk, parts: known }, highestNumber };
  }
  return {
    is: "proven",
    highestNumber,
    disk: { ...disk, parts, isUnclean: true, isUnproven: undefined },
  };
}

type OwnRecords = Map<DeviceId, CopyRecord>;

/** Returns the part as the highest record or the store says. */
function highestOf(part: CopiedPart, records: OwnRecords): CopiedPart {
  let highest: CopyRecord | undefined;
  for (const record of records.values()) if (record.layout > (highest?.layout ?? part.layout)) highest = record;
  if (highest === undefined) return part;
  const { layout, counting, remembered, copying } = highest;
  const named = [...counting, ...remembered, ...copying];
  return {
    layout,
    copies: [
      ...counting.map((deviceId): Copy => ({ deviceId, state: "COUNTS" })),
      ...remembered.map((deviceId) => asRemembered(copyOf(part, deviceId), deviceId)),
      ...copying.map((deviceId): Copy => ({ deviceId, state: "COPYING" })),
      ...part.copies
        .filter(({ deviceId }) => !named.includes(deviceId))
        .map(({ deviceId }): Copy => ({ deviceId, state: "LEAVING" })),
    ],
  };
}

function asRemembered(copy: Copy | undefined, deviceId: DeviceId): Copy {
  return copy?.state === "RESYNC" || copy?.state === "DROPPED" ? copy : { deviceId, state: "DROPPED", sinceMs: 0 };
}

/** Returns whether the device has said what it has: of a counting copy the disk's bytes themselves. */
function isAnswered({ deviceId, state }: Copy, records: OwnRecords, heard: HeardRecords): boolean {
  if (state !== "COUNTS") return heard.has(deviceId);
  const own = records.get(deviceId)?.own;
  return own !== undefined && own !== "FREED";
}

/**
 * Returns the part in which nobody is offered a remembered copy whose device was heard and has other bytes by now: it was
 * erased since the store was saved. A RESYNC copy that was partly filled anew is remembered by its own record.
 */
function withoutEmpty(part: CopiedPart, records: OwnRecords, heard: HeardRecords): CopiedPart {
  const copies = part.copies.map((copy): Copy => {
    const { deviceId, state, isMixed } = copy;
    const record = records.get(deviceId);
    if ((state !== "RESYNC" && state !== "DROPPED") || !heard.has(deviceId) || record?.own === "COUNTS") return copy;
    const isRemembered = record?.own === "COPYING" && record.remembered.includes(deviceId);
    if (!isRemembered) return { deviceId, state: "LEAVING" };
    return isMixed ? copy : { ...copy, isMixed: true };
  });
  return copies.every((copy, index) => copy === part.copies[index]) ? part : { ...part, copies };
}

/**
 * Returns the part without copies whose devices have another disk's bytes by now. A remembered copy that was being
 * filled has nothing to offer. One that counts by a later record than its own was counted before its own was written.
 */
function withoutOthers(part: CopiedPart, records: OwnRecords): CopiedPart {
  const copies = part.copies.flatMap((copy): readonly Copy[] => {
    const { deviceId, state } = copy;
    const own = records.get(deviceId)?.own;
    if (state === "COUNTS") return [own === "COUNTS" ? copy : { ...copy, isUnrecorded: true }];
    if (own === undefined) return [];
    return own === "COUNTS" && (state === "RESYNC" || state === "DROPPED") ? [copy] : [{ deviceId, state: "LEAVING" }];
  });
  return { ...part, copies };
}
