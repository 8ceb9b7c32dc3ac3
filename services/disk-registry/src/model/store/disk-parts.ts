import type { DeviceId, HostId } from "@diskmesh/domain";

/**
 * Use of a copy of a part. Exactly one copy of a part COUNTS.
 * COUNTS   has the bytes of the disk
 * COPYING  target of a move; its contents are not believed
 * LEAVING  former source of a move, until the disk's host uses the new layout
 */
type CopyState = "COUNTS" | "COPYING" | "LEAVING";

/** A device that has, or will have, the bytes of a part. */
export interface Copy {
  readonly deviceId: DeviceId;
  /** First slice of the run. Absent: the run covers all bytes of the device. */
  readonly first?: number | undefined;
  /**
   * Bytes of the run before this part's: they are, or were, an earlier part of the disk, from which this one was split.
   * Absent: 0.
   */
  readonly skipBytes?: number | undefined;
  readonly state: CopyState;
  /** Session that the device grants to the disk's host, when it is not the publication's. */
  readonly sessionNumber?: number | undefined;
  /** How far a copy that is COPYING is; absent when it begins at the first byte. */
  readonly mark?: CopyMark | undefined;
}

/**
 * First bytes of a target that are alike on the source, durably, as long as the sessions are the last ones of the runs: nobody
 * writes in them.
 */
export interface CopyMark {
  readonly copiedBytes: number;
  readonly sourceSession: number;
  readonly targetSession: number;
}

/** Consecutive bytes of a disk. */
export interface Part {
  /** Absent in documents of former versions: the size of the device. */
  readonly sizeBytes?: number | undefined;
  readonly copies: readonly Copy[];
  /** Set while the part is to move to another device; absent once that device counts. */
  readonly move?: Move | undefined;
  /** Failing device that the part is not to leave by itself, because an operator has cancelled that move. */
  readonly staysOn?: DeviceId | undefined;
}

/**
 * Why a part moves.
 * REMOVAL   its device, or the device's host, is to be removed
 * OPERATOR  MigrateDisk or ReplaceDevice asked for it
 * HEALTH    its device has turned WARNING by its own health
 */
export type MoveReason = "REMOVAL" | "OPERATOR" | "HEALTH";

/** A wish to have a part on another device. The copy that is COPYING is the target; without one, none is chosen yet. */
export interface Move {
  readonly reason: MoveReason;
  readonly requestedAtMs: number;
  /** Host to move to; absent for any. */
  readonly toHostId?: HostId | undefined;
  /** True when no device of the part's present host will do. */
  readonly elsewhere?: true | undefined;
  /** Failed tries. */
  readonly attempts: number;
  /** Error of the last failed try; empty for none. */
  readonly lastError: string;
}

/** Returns "copying" for a disk of which a part has a target, "waiting" for one with a move and no target. */
export function moveStateOf(parts: readonly Part[]): "copying" | "waiting" | undefined {
  if (parts.some(({ copies }) => copies.some(({ state }) => state === "COPYING"))) return "copying";
  return parts.some(({ move }) => move !== undefined) ? "waiting" : undefined;
}
