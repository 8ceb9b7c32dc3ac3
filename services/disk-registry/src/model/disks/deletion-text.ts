import { type DiskId, timeText } from "@diskmesh/domain";
import type { Deletion } from "../store/deletion.js";

/** Says that the disk was deleted and is kept, and how to bring it back. */
export function keptText(diskId: DiskId, { by, atMs, untilMs }: Deletion): string {
  return `disk ${diskId} was deleted by ${by} at ${timeText(atMs)} and is kept until ${timeText(untilMs)}: bring it back with \`diskmesh undelete ${diskId}\``;
}

/** Returns the command that erases a deleted disk before its time. */
export const deleteNow = (diskId: DiskId): string => `diskmesh delete ${diskId} --now`;
