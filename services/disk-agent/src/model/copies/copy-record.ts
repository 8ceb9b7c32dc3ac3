import type { CopyRecord } from "@diskmesh/domain";

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
