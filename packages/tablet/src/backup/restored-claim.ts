import { InvalidStateError } from "@diskmesh/domain";
import type { RestoredClaim } from "../storage.js";

/** Of the latest claim in a storage, what decides on the next one. */
interface LatestClaim {
  readonly isRestore?: true | undefined;
}

/** Throws InvalidStateError when there is what a restore must not touch, or a restore that never ended. */
export function refuseRestore(last: LatestClaim | undefined, restore: RestoredClaim | undefined, where: string): void {
  if (last === undefined) return;
  if (restore !== undefined)
    throw new InvalidStateError(`${where} is not empty: restore elsewhere, or say --replace to lose what is there`);
  if (last.isRestore) {
    throw new InvalidStateError(
      `${where} holds a part of a backup, whose restore was cut off or still runs: restore it again with --replace`,
    );
  }
}

/** More generations than there can have been since a backup. */
export const GENERATION_STEP = 2 ** 20;

/**
 * Returns the fields that only the claim of a restore has: a generation above those of the backup and of the
 * storage, whose last one is 0 where it is empty.
 */
export function restoredFields({ replace, firstNumber, generation, ...claim }: RestoredClaim, lastGeneration: number) {
  return { ...claim, generation: Math.max(generation, lastGeneration + GENERATION_STEP), isRestore: true } as const;
}
