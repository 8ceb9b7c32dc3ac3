import type { DiskId } from "@diskmesh/domain";
import { nextSessionNumber } from "../devices/counters.js";
import type { Copy } from "../store/disk-parts.js";
import { forNewSession, offsetOf, partSizeBytes, withCopies, withPart } from "../store/layout.js";
import type { Disk, Publication, RegistryTransaction } from "../store/schema.js";

/** Target of a move that its holder has ended with the export, and how far it was. */
export interface CopiedTarget {
  readonly deviceId: string;
  readonly offsetBytes: number;
  readonly sessionNumber: number;
  readonly copiedBytes: number;
}

/**
 * Returns the disk for the session of a publication. A move with a mark goes on: its target gets a session, so that the
 * host writes to both copies from its first write on. A host that is asked to end its export may say how far its move is.
 */
export function forPublication(tx: RegistryTransaction, before: Disk, publication: Publication): Disk {
  const { publication: former } = before;
  const given = { ...before, lastSessionNumber: publication.sessionNumber };
  const disk = { ...forNewSession(tx, given), publication };
  const isMeant = ({ state, mark, sessionNumber }: Copy): boolean =>
    state === "COPYING" && (publication.state === "PUBLISHING" ? mark !== undefined : sessionNumber !== undefined);
  const index = before.parts.findIndex(({ copies }) => copies.some(isMeant));
  const { mark, sessionNumber } = before.parts[index]?.copies.find(isMeant) ?? {};
  const withTarget = (fields: Partial<Copy>): Disk =>
    withPart(disk, index, (part) => ({
      ...part,
      copies: part.copies.map((copy) => (copy.state === "COPYING" ? { ...copy, ...fields } : copy)),
    }));
  // The host of a publication that was asked for may have changed bytes of one copy.
  if (publication.state === "PUBLISHING" && mark !== undefined && (former === undefined || former.unasked)) {
    const ofTarget = nextSessionNumber(tx);
    return { ...withTarget({ mark, sessionNumber: ofTarget }), lastSessionNumber: ofTarget };
  }
  return publication.state === "UNPUBLISHING" && former?.state === "PUBLISHED" ? withTarget({ sessionNumber }) : disk;
}

/**
 * Marks how far moves are whose holder has ended its export without a write in flight, in the publication's session. Changes
 * nothing for a fence, or a target that was chosen since.
 */
export function noteEnded(
  tx: RegistryTransaction,
  diskId: DiskId,
  { sessionNumber: sourceSession }: Publication,
  ended: readonly CopiedTarget[],
): void {
  const disk = tx.disks.get(diskId);
  const now = disk?.publication;
  if (disk === undefined || now?.state !== "UNPUBLISHING" || now.sessionNumber !== sourceSession || disk.fence) return;
  const parts = disk.parts.map((part) => {
    const copies = part.copies.map((copy): Copy => {
      const { sessionNumber: targetSession, ...rest } = copy;
      const isSame = (each: CopiedTarget): boolean =>
        each.deviceId === copy.deviceId &&
        each.sessionNumber === targetSession &&
        each.offsetBytes === offsetOf(tx, disk, copy);
      const found = copy.state === "COPYING" ? ended.find(isSame) : undefined;
      if (found === undefined || targetSession === undefined) return copy;
      const copiedBytes = Math.min(found.copiedBytes, partSizeBytes(tx, part));
      return { ...rest, mark: { copiedBytes, sourceSession, targetSession } };
    });
    return { ...part, copies };
  });
  tx.disks.put({ ...disk, parts });
}

/** Returns the disk without the sessions in which its last host had targets. */
export function withoutSessions(disk: Disk): Disk {
  return withCopies(disk, ({ sessionNumber: _, ...copy }) => copy);
}

/**
 * Takes the marks of the disk's targets, before its host is told of them: should it be asked again, it may have changed bytes
 * of one copy in between.
 */
export function spendMarks(tx: RegistryTransaction, diskId: DiskId, { sessionNumber }: Publication): void {
  const disk = tx.disks.get(diskId);
  if (disk?.publication?.sessionNumber !== sessionNumber) return;
  tx.disks.put(withCopies(disk, ({ mark: _, ...copy }) => copy));
}
