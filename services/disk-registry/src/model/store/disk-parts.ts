import type { DeviceId } from "@diskmesh/domain";

/**
 * Use of a copy of a part. Exactly one copy of a part COUNTS.
 * COUNTS   has the bytes of the disk
 * COPYING  target of a move; its contents are not believed
 * LEAVING  former source of a move, until the disk's host uses the new layout
 */
export type CopyState = "COUNTS" | "COPYING" | "LEAVING";

/** A device that has, or will have, the bytes of a part. */
export interface Copy {
  readonly deviceId: DeviceId;
  readonly state: CopyState;
  /** Session that the device grants to the disk's host, when it is not the publication's. */
  readonly sessionNumber?: number | undefined;
}

/** Consecutive bytes of a disk. */
export interface Part {
  /** Absent in documents of former versions: the size of the device. */
  readonly sizeBytes?: number | undefined;
  readonly copies: readonly Copy[];
}
