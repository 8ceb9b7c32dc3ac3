import { InvalidStateError } from "@diskmesh/domain";
import type { RestoredClaim } from "../storage.js";

/** Part of the latest claim that decides about the next one. */
interface LatestClaim {
  readonly isRestore?: true | undefined;
}

/** Throws InvalidStateError when the storage holds state that a restore must not touch, or an unfinished restore. */
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

/** Exceeds the number of generations that can have passed since a backup. */
export const GENERATION_STEP = 2 ** 20;

/**
 * Returns the fields that only a restore's claim has. Its generation is above those of the backup and the storage;
 * `lastGeneration` is 0 for an empty storage.
 */
export function restoredFields({ replace, firstNumber, generation, ...claim }: RestoredClaim, lastGeneration: number) {
  return { ...claim, generation: Math.max(generation, lastGeneration + GENERATION_STEP), isRestore: true } as const;
}
