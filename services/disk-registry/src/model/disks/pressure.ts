import { ResourceExhaustedError } from "@diskmesh/domain";
import type { DiskRequest, RegistryTables } from "../store/schema.js";
import type { AllocationLimits } from "./candidates.js";
import { type DeletedDisk, deletedDisks, mayBeErased } from "./deleted-disks.js";
import { oncePurged } from "./shortage.js";

/** An allocation that found no room. */
export interface Needed {
  readonly request: DiskRequest;
  readonly limits: AllocationLimits;
}

type RefusalDetails = NonNullable<ConstructorParameters<typeof ResourceExhaustedError>[1]>;

/** Refusal of an allocation that fits only once deleted disks are erased, if at all. */
export class NoRoomError extends ResourceExhaustedError {
  /** Undefined when the registry has too many disks. */
  readonly needed: Needed | undefined;

  constructor(message: string, { needed, ...details }: RefusalDetails & { readonly needed?: Needed } = {}) {
    super(message, details);
    this.needed = needed;
  }
}

/** Maximum disks among which those are looked for whose bytes an allocation can do without. */
const MAX_SPARED = 256;

/**
 * Returns the deleted disks whose bytes the allocation needs: the oldest ones, as few as suffice, and none when all of
 * them do not.
 */
export function disksToErase(tables: RegistryTables, needed: Needed | undefined): readonly DeletedDisk[] {
  const deleted = deletedDisks(tables).filter((disk) => mayBeErased(tables, disk));
  if (needed === undefined) return deleted.slice(0, 1);
  const { request, limits } = needed;
  const inPool = deleted.filter(({ requested }) => requested.pool === request.pool);
  const suffices = oncePurged(tables, request, limits, inPool);
  if (!suffices(inPool)) return [];
  let [low, high] = [0, inPool.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (suffices(inPool.slice(0, middle))) high = middle;
    else low = middle + 1;
  }
  let erased = inPool.slice(0, low);
  if (erased.length > MAX_SPARED) return erased;
  for (const disk of erased) {
    const rest = erased.filter((each) => each !== disk);
    if (suffices(rest)) erased = rest;
  }
  return erased;
}
