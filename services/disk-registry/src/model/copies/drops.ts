import type { DeviceId } from "@diskmesh/domain";
import {
  type CopiedDisk,
  type CopiedPart,
  changeCopy,
  changePart,
  copyOf,
  devicesIn,
  isPresent,
  withNextRevision,
} from "./copied-disk.js";

/** The holder's word that a copy has failed, in the session and revision in which it failed. */
export interface DropRequest {
  readonly part: number;
  readonly deviceId: DeviceId;
  readonly session: number;
  readonly revision: number;
}

export type DropAnswer =
  | { readonly is: "dropped" | "already"; readonly disk: CopiedDisk }
  /** The holder goes on holding: it gets another order, or the copy is the last one. */
  | { readonly is: "refused"; readonly why: "OUTDATED" | "LAST_COPY" };

/**
 * Decides on a holder's DropCopy. The holder holds the part's requests until the answer; a repeated call gets the same
 * answer. `layout` is a new number of the sessions' counter.
 */
export function dropCopy(disk: CopiedDisk, request: DropRequest, at: { layout: number; nowMs: number }): DropAnswer {
  const { part: index, deviceId, session, revision } = request;
  const part = disk.parts[index];
  if (part === undefined || disk.publication?.state !== "PUBLISHED" || !isPresent(disk, { session }))
    return { is: "refused", why: "OUTDATED" };
  const state = copyOf(part, deviceId)?.state;
  if (state !== "COUNTS" && state !== "RESYNC" && state !== "COPYING") return { is: "already", disk };
  if (!isPresent(disk, { session, revision })) return { is: "refused", why: "OUTDATED" };
  if (state === "COUNTS" && devicesIn(part, "COUNTS").length === 1) return { is: "refused", why: "LAST_COPY" };
  return { is: "dropped", disk: withNextRevision(changePart(disk, index, (each) => withDropped(each, deviceId, at))) };
}

/** Returns the part without the copy. One that counted is remembered with its time, and the layout is a new one. */
export function withDropped(
  part: CopiedPart,
  deviceId: DeviceId,
  { layout, nowMs }: { readonly layout: number; readonly nowMs: number },
): CopiedPart {
  const counted = copyOf(part, deviceId)?.state === "COUNTS";
  const left = changeCopy(part, deviceId, ({ session: _, isOpen: __, ...copy }) => {
    if (counted) return { ...copy, state: "DROPPED", sinceMs: nowMs };
    return copy.state === "COPYING" ? { ...copy, state: "LEAVING" } : copy;
  });
  return counted ? { ...left, layout } : left;
}
