import { InvalidStateError } from "@diskmesh/domain";
import type { Files } from "./files.js";
import { namesIn, restoredBeside } from "./folders.js";

/**
 * Throws InvalidStateError for a missing or empty folder beside which restores left tablets, because a new empty tablet
 * there would hide them.
 */
export function refuseLost(files: Files, folder: string): void {
  if ((namesIn(files, folder) ?? []).length > 0) return;
  const beside = restoredBeside(files, folder);
  if (beside.length === 0) return;
  throw new InvalidStateError(
    `the folder ${folder} holds no tablet, but a restore left ${beside.join(" and ")} beside it: rename the right one to ${folder}, or restore a backup; move them away to begin a new tablet`,
  );
}
