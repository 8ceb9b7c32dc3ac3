import type { DeviceId, HostId } from "@diskmesh/domain";
import { type CopiedDisk, type Copy, changePart, copyOf, devicesIn } from "./copied-disk.js";

/** How a host stands with regard to a copy that is given up. */
export type HostWord = "HEARD" | "SILENT" | "SAID_DEAD";

export interface Offer {
  readonly deviceId: DeviceId;
  readonly hostId: HostId;
  readonly state: "RESYNC" | "DROPPED";
  /** Acknowledged writes since then are lost. */
  readonly sinceMs: number;
  /** True when the copy has some newer bytes among its old ones: file systems need a repair. */
  readonly isMixed: boolean;
}

/** Returns the copies of a part that a person can make count, those that lose least first. */
export function offers(disk: CopiedDisk, index: number, hostOf: (deviceId: DeviceId) => HostId): readonly Offer[] {
  const rank = ({ state, sinceMs = 0 }: Copy): number => (state === "RESYNC" ? Number.MAX_SAFE_INTEGER : 0) + sinceMs;
  return (disk.parts[index]?.copies ?? [])
    .filter(({ state }) => state === "RESYNC" || state === "DROPPED")
    .sort((a, b) => rank(b) - rank(a))
    .map(({ deviceId, state, sinceMs = 0, isMixed = false }) => ({
      deviceId,
      hostId: hostOf(deviceId),
      state: state === "RESYNC" ? "RESYNC" : "DROPPED",
      sinceMs,
      isMixed,
    }));
}

export type Accepted =
  | { readonly is: "accepted"; readonly disk: CopiedDisk }
  | {
      readonly is: "refused";
      /**
       * STILL_HEARD: a copy that counts may answer yet. NOT_OFFERED: the copy has nothing to offer. IN_USE: end it first.
       * UNHEARD: the store may be old, and the copy's device has not said what it has.
       */
      readonly why: "STILL_HEARD" | "NOT_OFFERED" | "IN_USE" | "UNHEARD";
      readonly deviceId?: DeviceId;
    };

/**
 * Has a dropped copy count in place of all others, on a person's word. Refused while a copy that counts may still be
 * heard, unless an operator has said that its host is DEAD. `awaited`, of an unproven disk: the devices that `prove` waits for.
 */
export function acceptDroppedCopy(
  disk: CopiedDisk,
  { part: index, deviceId }: { readonly part: number; readonly deviceId: DeviceId },
  at: {
    readonly layout: number;
    readonly wordOn: (deviceId: DeviceId) => HostWord;
    readonly awaited?: readonly DeviceId[] | undefined;
  },
): Accepted {
  const part = disk.parts[index];
  const state = part && copyOf(part, deviceId)?.state;
  if (part === undefined || (state !== "RESYNC" && state !== "DROPPED")) return { is: "refused", why: "NOT_OFFERED" };
  if (disk.publication !== undefined && disk.publication.state !== "PUBLISHING" && disk.publication.state !== "FENCING")
    return { is: "refused", why: "IN_USE" };
  if (disk.isUnproven && at.awaited?.includes(deviceId) !== false) return { is: "refused", why: "UNHEARD", deviceId };
  const heard = devicesIn(part, "COUNTS").find((each) => at.wordOn(each) !== "SAID_DEAD");
  if (heard !== undefined) return { is: "refused", why: "STILL_HEARD", deviceId: heard };
  const accepted = changePart(disk, index, (each) => ({
    ...each,
    layout: at.layout,
    copies: each.copies.map((copy): Copy => {
      if (copy.deviceId === deviceId) return { deviceId, state: "COUNTS", isUnrecorded: true };
      return copy.state === "COUNTS" ? { deviceId: copy.deviceId, state: "LEAVING" } : copy;
    }),
  }));
  return { is: "accepted", disk: { ...accepted, isUnclean: true } };
}
