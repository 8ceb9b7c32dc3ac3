import { InvalidStateError } from "@diskmesh/domain";
import type { RestoredClaim } from "../storage/storage.js";

/** Fields of the latest claim that decide whether a new claim is allowed. */
interface LatestClaim {
  readonly isRestore?: true | undefined;
}

/**
 * Throws InvalidStateError for a restore into a storage that is not empty, and for any other claim of a storage that
 * contains an unfinished restore.
 */
export function refuseRestore(last: LatestClaim | undefined, restore: RestoredClaim | undefined, where: string): void {
  if (last === undefined) return;
  if (restore !== undefined)
    throw new InvalidStateError(`${where} is not empty: restore elsewhere, or give --replace to discard its data`);
  if (last.isRestore) {
    throw new InvalidStateError(
      `${where} contains a partly restored backup or rebuilt registry, whose making was interrupted or still runs: give that command again, with --replace`,
    );
  }
}

/** Amount that a restore adds to the generation. No tablet can have had that many generations since the backup. */
export const GENERATION_STEP = 2 ** 20;

/**
 * Returns the fields of a restore's claim. Their generation exceeds the generations of the backup and of the storage.
 * `lastGeneration` is the storage's generation, 0 for an empty storage.
 */
export function restoredFields({ replace, firstNumber, generation, ...claim }: RestoredClaim, lastGeneration: number) {
  return { ...claim, generation: Math.max(generation, lastGeneration + GENERATION_STEP), isRestore: true } as const;
}
