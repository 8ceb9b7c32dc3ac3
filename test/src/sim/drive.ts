import { DeviceIoError } from "@diskmesh/domain";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";
import type { SimProcess, Timeline } from "./timeline.js";

/** The part of the simulated world that a machine sees. */
export interface MachineWorld {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly faults: Faults;
  /** How likely a drive is no file, and has no serial number of its own. */
  readonly scenario: { readonly unmarkedDrives?: number } | undefined;
}

/** The content of a block: 0 for zeros, else the number of the write that put it there. */
export type BlockContents = number;

/** A drive: what is found at a path, as long as it is that drive. */
export interface Drive {
  readonly name: string;
  readonly blocks: BlockContents[];
  /** Two hosts see it: as a file of one machine on which both agents run, or as a drive that both machines reach. */
  readonly sharedAs?: "file" | "drive" | undefined;
  /** A regular file, whose inode tells it over a boot. What is none, and has no serial number of its own, is told by its slot. */
  readonly isFile: boolean;
  /** The length in blocks that the agent found at its last look. */
  seenBlocks: number;
  /** Those who have it open now, of all hosts. */
  readonly openBy: Set<SimProcess>;
}

// Nobody knows what a new drive holds.
export const newDrive = (
  name: string,
  blockCount: number,
  { sharedAs, isFile = sharedAs === "file" }: Partial<Pick<Drive, "sharedAs" | "isFile">> = {},
): Drive => ({
  name,
  blocks: Array.from({ length: blockCount }, () => 0xffff_ffff),
  sharedAs,
  isFile,
  seenBlocks: blockCount,
  openBy: new Set(),
});

/**
 * Returns the identity that the kernel of that boot reports. `slot` is the kernel's name for the drive at a path, new
 * with each boot.
 */
export function identityOf({ name, sharedAs, isFile }: Drive, boot: string, slot: string): string {
  const inode = name.replace(/\W+/g, "-");
  return `${sharedAs === "file" ? "boot-of-both" : boot} ${isFile ? `file 1:${inode}:1` : `block ${slot}`}`;
}

/** The kernel's lock, as on a file. Drives that two machines reach have none. */
export function requireUnlocked(drive: Drive, process: SimProcess): void {
  for (const other of drive.openBy)
    if (drive.sharedAs === "file" && other !== process)
      throw new DeviceIoError(`${drive.name} cannot be used: it is locked by ${other.name}`);
}
