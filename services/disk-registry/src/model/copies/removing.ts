import type { DeviceId } from "@diskmesh/domain";
import {
  type CopiedDisk,
  type CopiedPart,
  changeCopy,
  changePart,
  copyOf,
  devicesIn,
  withNextRevision,
} from "./copied-disk.js";

export type DeviceRemoval =
  | { readonly is: "removed"; readonly disk: CopiedDisk }
  /**
   * LAST_COPY: a person accepts another copy of the part, or deletes the disk. UNPROVEN: only the device may have some writes,
   * or a device that is not gone may know of a later set of copies.
   */
  | { readonly is: "refused"; readonly why: "LAST_COPY" | "UNPROVEN"; readonly part: number };

/**
 * Forgets the copies on a device that has failed for good, and ends a snapshot to it. Refused for the last copy that counts,
 * and of an unproven disk until all others were heard and a person accepts that writes may be lost which the device alone has.
 * `layout` is a new number of the sessions' counter, higher than all that `prove` has heard. `awaited`, of an unproven disk: the
 * devices that `prove` waits for, without those that are gone; absent until a person accepts the loss. Returns the same disk when the device has none of its bytes.
 */
export function removeDevice(
  disk: CopiedDisk,
  deviceId: DeviceId,
  { layout, awaited }: { readonly layout: number; readonly awaited?: readonly DeviceId[] | undefined },
): DeviceRemoval {
  const isTarget = disk.snapshot?.targets.includes(deviceId) === true;
  const affected = disk.parts.findIndex((part) => copyOf(part, deviceId) !== undefined);
  if (affected < 0 && !isTarget) return { is: "removed", disk };
  if (disk.isUnproven && awaited?.length !== 0) return { is: "refused", why: "UNPROVEN", part: Math.max(affected, 0) };
  const last = disk.parts.findIndex((part) => devicesIn(part, "COUNTS").every((each) => each === deviceId));
  if (last >= 0) return { is: "refused", why: "LAST_COPY", part: last };
  const left = disk.parts.reduce(
    (sum, _, index) => changePart(sum, index, (part) => without(part, deviceId, layout)),
    disk,
  );
  return { is: "removed", disk: withNextRevision(isTarget ? { ...left, snapshot: undefined } : left) };
}

function without(part: CopiedPart, deviceId: DeviceId, layout: number): CopiedPart {
  const { moveFrom } = part;
  const left = {
    ...changeCopy(part, deviceId, () => undefined),
    moveFrom: moveFrom === deviceId ? undefined : moveFrom,
  };
  return copyOf(part, deviceId)?.state === "COUNTS" ? { ...left, layout } : left;
}

/**
 * Returns whether the disk may be deleted: nobody uses it. Its devices are erased, each under a session of its own, so that a
 * former holder that is not heard writes to none that another disk has.
 */
export function isDeletable({ publication }: CopiedDisk): boolean {
  if (publication === undefined || publication.isRepair) return true;
  return publication.state === "PUBLISHING" || publication.state === "FENCING";
}
