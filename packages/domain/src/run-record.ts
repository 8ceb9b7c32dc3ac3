import type { DeviceId, DiskId } from "./identifiers.js";

/** Bytes of a disk on a run. */
export interface RecordedPart {
  /** Position among the disk's parts, from 0. */
  readonly index: number;
  /** First byte of the part, counted from the run's. */
  readonly offsetBytes: number;
  readonly sizeBytes: number;
}

/** Contents of a run's record beside disk and session, as orders bring it and its first bytes keep it. */
export interface RunRecord {
  readonly diskSizeBytes: number;
  readonly blockSizeBytes: number;
  readonly pool: string;
  /** Number of the disk's parts. */
  readonly partCount: number;
  /** Parts that the run has, in order; empty when nothing on it counts yet. */
  readonly parts: RecordedPart[];
  /** Number of the disk's changes within the session. */
  readonly layout: number;
  /** True when the holder had written everything back before the session ended it. */
  readonly clean: boolean;
}

/** A device's own word on the bytes that it has of a part of a disk with several copies. It lies beside the bytes. */
export interface CopyRecord {
  readonly diskId: DiskId;
  readonly part: number;
  /** Number of the set of counting copies. */
  readonly layout: number;
  readonly session: number;
  readonly counting: readonly DeviceId[];
  /** Copies that a person may make count; none of them is read. */
  readonly remembered: readonly DeviceId[];
  /** Copies that are being filled, and may count in a later set. */
  readonly copying: readonly DeviceId[];
  /** FREED: the bytes are not needed, and may be erased. */
  readonly own: "COUNTS" | "COPYING" | "FREED";
}
