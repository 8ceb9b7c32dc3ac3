import { DeviceIoError } from "@diskmesh/domain";
import type { Random } from "../random.js";
import type { Faults } from "./faults.js";
import type { SimProcess, Timeline } from "./seed/timeline.js";

/** Parts of the simulated world that a machine uses. */
export interface MachineWorld {
  readonly timeline: Timeline;
  readonly random: Random;
  readonly faults: Faults;
  /** Probability that a drive is a block device without its own serial number. */
  readonly scenario: { readonly unmarkedDrives?: number } | undefined;
}

/** Content of a block: the number of its last write; 0 for zeros. */
export type BlockContents = number;

/** A drive. Another drive may be at its path later. */
export interface Drive {
  readonly name: string;
  readonly blocks: BlockContents[];
  /** Contents of label areas and records, which are smaller than a block, by their positions in bytes. */
  readonly labels: Map<number, Buffer>;
  /**
   * Set when two hosts see the drive: "file" when both agents run on one machine, "drive" when two machines reach it.
   */
  readonly sharedAs?: "file" | "drive" | undefined;
  /**
   * True for a regular file, which its inode identifies across reboots. A block device without its own serial number is
   * identified by its slot.
   */
  readonly isFile: boolean;
  /** Length in blocks at the agent's last check. */
  seenBlocks: number;
  /** Processes of all hosts that have the drive open. */
  readonly openBy: Set<SimProcess>;
}

// A new drive has unknown contents.
export const newDrive = (
  name: string,
  blockCount: number,
  { sharedAs, isFile = sharedAs === "file" }: Partial<Pick<Drive, "sharedAs" | "isFile">> = {},
): Drive => ({
  name,
  blocks: Array.from({ length: blockCount }, () => 0xffff_ffff),
  labels: new Map(),
  sharedAs,
  isFile,
  seenBlocks: blockCount,
  openBy: new Set(),
});

/**
 * Returns the identity that the kernel reports in this boot. `slot` is the kernel's name of the drive at the path, new
 * with each boot.
 */
export function identityOf({ name, sharedAs, isFile }: Drive, boot: string, slot: string): string {
  const inode = name.replace(/\W+/g, "-");
  return `${sharedAs === "file" ? "boot-of-both" : boot} ${isFile ? `file 1:${inode}:1` : `block ${slot}`}`;
}

/**
 * Throws when another process has locked the drive, as the kernel does for a file. Drives that two machines reach have
 * no common lock.
 */
export function requireUnlocked(drive: Drive, process: SimProcess): void {
  for (const other of drive.openBy)
    if (drive.sharedAs === "file" && other !== process)
      throw new DeviceIoError(`${drive.name} cannot be used: it is locked by ${other.name}`);
}
