import { MIB_BYTES } from "@diskmesh/domain";

/** Returns the size in whole MiB, rounded down: clients of BOSH decode no fraction. */
export function wholeMib(sizeBytes: number): number {
  return Math.floor(sizeBytes / MIB_BYTES);
}
