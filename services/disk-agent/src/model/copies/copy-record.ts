import type { DeviceId, DiskId } from "@diskmesh/domain";

/** A device's own word on the bytes that it has of a part. It lies beside the bytes, and travels with them. */
export interface CopyRecord {
  readonly diskId: DiskId;
  readonly part: number;
  /** Number of the set of counting copies. */
  readonly layout: number;
  readonly session: number;
  readonly counting: readonly DeviceId[];
  /** Copies that a person may make count; none of them is read. */
  readonly remembered: readonly DeviceId[];
  /** FREED: the bytes are not needed, and are erased next. */
  readonly own: "COUNTS" | "COPYING" | "FREED";
}

/** A place for a record, with a number that grows with each write; undefined when its checksum is wrong. */
type RecordSlot = { readonly written: number; readonly record: CopyRecord } | undefined;
export type RecordSlots = readonly [RecordSlot, RecordSlot];

/** Returns the last record that was written whole; undefined for none. */
export function latestRecord([first, second]: RecordSlots): CopyRecord | undefined {
  if (first === undefined || second === undefined) return (first ?? second)?.record;
  return (first.written > second.written ? first : second).record;
}

/** Returns the slot that the next record is written to, so that the latest one outlives a torn write. */
export function slotToWrite([first, second]: RecordSlots): { readonly index: 0 | 1; readonly written: number } {
  const written = Math.max(first?.written ?? 0, second?.written ?? 0) + 1;
  const isFirst = first === undefined || (second !== undefined && first.written < second.written);
  return { index: isFirst ? 0 : 1, written };
}
