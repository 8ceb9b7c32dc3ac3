import { CopyState, type Disk } from "./generated/diskmesh/registry/v1/types.js";

/** Returns the IDs of the devices that have a disk's bytes, in order; none for an absent disk. */
export function devicesWithBytes(disk: Pick<Disk, "parts"> | undefined): string[] {
  const copies = (disk?.parts ?? []).flatMap((part) => part.copies);
  return copies.filter(({ state }) => state === CopyState.COUNTS).map(({ deviceId }) => deviceId);
}
