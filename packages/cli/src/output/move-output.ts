import type { Disk } from "@diskmesh/api/registry";
import type { Output } from "./output.js";

/** Prints a disk whose moves were changed: the progress of the moves, or that there are none. */
export function showMoves(output: Output, disk: Disk | undefined): void {
  if (disk === undefined) return;
  output.answer(disk, `disk ${disk.diskId}: ${moveOf(disk) || "no part of it moves"}`);
}

/** Returns the progress of the disk's moves as a sentence; empty when no part moves. */
function moveOf({ parts }: Pick<Disk, "parts">): string {
  return parts.find(({ move }) => move !== undefined)?.move?.message ?? "";
}

/** Returns the bytes of the moving part that are copied, in percent; empty when no part is being copied. */
export function moveProgress({ parts }: Pick<Disk, "parts">): string {
  const part = parts.find(({ move }) => (move?.copiedBytes ?? 0) > 0);
  if (part?.move === undefined) return parts.some(({ move }) => move !== undefined) ? "waiting" : "";
  return `${Math.floor((100 * part.move.copiedBytes) / Math.max(1, part.sizeBytes))} %`;
}
