import { CopyState, type Disk } from "./generated/diskmesh/registry/v1/types.js";

/** Returns the IDs of the devices that have a disk's bytes, each once, in order; none for an absent disk. */
export function devicesWithBytes(disk: Pick<Disk, "parts"> | undefined): string[] {
  const copies = (disk?.parts ?? []).flatMap((part) => part.copies);
  return [...new Set(copies.flatMap(({ deviceId, state }) => (state === CopyState.COUNTS ? deviceId : [])))];
}
