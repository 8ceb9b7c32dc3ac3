import type { Disk } from "./disk.js";

/** The last record of a deleted dynamic disk, under which a CPI that has kept its data gives it back. */
export interface DeletedDisk {
  readonly disk: Disk;
  readonly deletedAtMs: number;
}
