import { DeviceIoError } from "@diskmesh/domain";
import type { SimProcess } from "./timeline.js";

/** What a block holds: 0 for zeros, else the number of the write that put it there. */
export type BlockContents = number;

/** A drive: what is found at a path, as long as it is that drive. */
export interface Drive {
  readonly name: string;
  readonly blocks: BlockContents[];
  /** Two hosts see it: as a file of one machine on which both agents run, or as a drive that both machines reach. */
  readonly sharedAs?: "file" | "drive" | undefined;
  /** Those who have it open now, of all hosts. */
  readonly openBy: Set<SimProcess>;
}

// Nobody knows what a new drive holds.
export const newDrive = (name: string, blockCount: number, sharedAs?: Drive["sharedAs"]): Drive => ({
  name,
  blocks: Array.from({ length: blockCount }, () => 0xffff_ffff),
  sharedAs,
  openBy: new Set(),
});

/** The kernel's lock, as on a file. Drives that two machines reach have none. */
export function requireUnlocked(drive: Drive, process: SimProcess): void {
  for (const other of drive.openBy)
    if (drive.sharedAs === "file" && other !== process)
      throw new DeviceIoError(`${drive.name} cannot be used: it is locked by ${other.name}`);
}
