import { type GetMirrorResponse, MirrorState } from "@diskmesh/api/internal";
import type { Mirroring } from "../model/disks/moves.js";

/** How far a try of a move is. */
export type Answer =
  | { readonly kind: "goes_on"; readonly copiedBytes: number }
  | { readonly kind: "done" }
  /** `goesOn`: the next try goes on in the same session. */
  | { readonly kind: "failed"; readonly error: string; readonly isOfTarget: boolean; readonly goesOn?: boolean };

/** Returns how far a move is of which the holder tells. */
export function answerOfMirror(
  { state, copiedBytes, failedDeviceId, message }: GetMirrorResponse,
  { source, target, holder }: Mirroring,
): Answer {
  if (state === MirrorState.EQUAL) return { kind: "done" };
  if (state === MirrorState.COPYING) return { kind: "goes_on", copiedBytes };
  // The source is named only after EQUAL: the target has every acknowledged write.
  if (state === MirrorState.FAILED && failedDeviceId === source.deviceId) return { kind: "done" };
  const error = `mirroring device ${source.deviceId} to ${target.deviceId} on host ${holder.hostId}: ${message}`;
  return { kind: "failed", error, isOfTarget: failedDeviceId === target.deviceId };
}
