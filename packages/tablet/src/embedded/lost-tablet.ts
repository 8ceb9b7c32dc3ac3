import { AlreadyExistsError, InvalidStateError } from "@diskmesh/domain";
import { noTablet } from "../storage/no-tablet.js";
import type { ClaimOptions } from "../storage/storage.js";
import type { Files } from "./files.js";
import { namesIn, restoredBeside } from "./folders.js";
import { MARK } from "./mark.js";

/**
 * Throws unless the folder may hold what is expected. Refuses a missing or empty folder beside which restores left
 * tablets, because a new, empty tablet there would hide them.
 */
export function refuseUnexpected(files: Files, folder: string, expects: ClaimOptions["expects"]): void {
  const names = namesIn(files, folder) ?? [];
  // Before the lock is tried, which a running service holds.
  if (expects === "nothing" && names.includes(MARK)) throw existing(folder);
  if (names.length > 0) return;
  const beside = restoredBeside(files, folder);
  if (beside.length > 0)
    throw new InvalidStateError(
      `the folder ${folder} holds no tablet, but a restore left ${beside.join(" and ")} beside it: rename the right one to ${folder}, or restore a backup; move them away to begin a new tablet`,
    );
  if (expects === "a tablet") throw noTablet(`the folder ${folder}`);
}

/** Throws unless the last claim of the folder is what is expected. */
export function refuseUnexpectedClaim(
  last: object | undefined,
  folder: string,
  expects: ClaimOptions["expects"],
): void {
  if (last === undefined && expects === "a tablet") throw noTablet(`the folder ${folder}`);
  if (last !== undefined && expects === "nothing") throw existing(folder);
}

function existing(folder: string): AlreadyExistsError {
  return new AlreadyExistsError(`the folder ${folder} holds a tablet`);
}
