import { InvalidArgumentError, MIB_BYTES } from "@diskmesh/domain";

const MAX_SIZE_MIB = Math.floor(Number.MAX_SAFE_INTEGER / MIB_BYTES);

/** Validates a disk's size. */
export function parseSizeMib(sizeMib: number): number {
  if (Number.isSafeInteger(sizeMib) && sizeMib > 0 && sizeMib <= MAX_SIZE_MIB) return sizeMib;
  throw new InvalidArgumentError(`size_mib is ${sizeMib}: it must be a whole number from 1 to ${MAX_SIZE_MIB}`, {
    about: { field: "size_mib" },
  });
}
