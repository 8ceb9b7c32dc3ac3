import { parseDiskId, type RunRecord } from "@diskmesh/domain";
import { crc32c } from "./crc32c.js";
import { asCount, BLOCK_BYTES, type LabelWrite } from "./label.js";
import type { DeviceRun } from "./runs.js";

/** A run as an order names it. */
export interface OrderedRun extends DeviceRun {
  /** Absent: the run has no record, or keeps the present one. */
  readonly record?: RunRecord | undefined;
}

/** The record in a run's first bytes. */
export interface WrittenRecord extends RunRecord {
  readonly diskId: string;
  readonly sessionNumber: number;
}

/** A record that was found on a device. */
export interface FoundRecord {
  readonly record: WrittenRecord;
  /** Grows with each writing of the run's record. */
  readonly counter: number;
  readonly slot: number;
}

/** Bytes of a slot. Those of the largest record, of a disk in 256 parts on one run, fit. */
const SLOT_BYTES = 16_384;
/** Bytes at a run's start that have the slots. The rest of the bytes kept for the record is for copies. */
export const RECORD_BYTES = 2 * SLOT_BYTES;

// A slot has the magic, a checksum of all that follows it, the length of the text, and the text.
const MAGIC = Buffer.from("diskmesh-record1");
const SUM_AT = MAGIC.length;
const LENGTH_AT = SUM_AT + 4;
const TEXT_AT = LENGTH_AT + 4;

/** Returns the blocks that replace the record in the slot that does not have it, so that a record is whole at every moment. */
export function recordWrite(record: WrittenRecord, found: FoundRecord | undefined): LabelWrite {
  const text = Buffer.from(textOf(record, (found?.counter ?? 0) + 1));
  const lengthBytes = TEXT_AT + text.length;
  if (lengthBytes > SLOT_BYTES) throw new Error(`the record of disk ${record.diskId} is too long`);
  const bytes = Buffer.alloc(Math.ceil(lengthBytes / BLOCK_BYTES) * BLOCK_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(text.length, LENGTH_AT);
  text.copy(bytes, TEXT_AT);
  bytes.writeUInt32LE(crc32c(bytes.subarray(LENGTH_AT, lengthBytes)), SUM_AT);
  return { offsetBytes: (1 - (found?.slot ?? 1)) * SLOT_BYTES, bytes };
}

/** Returns the record in a run's first bytes: that of the higher counter where both slots are whole. */
export function decodeRecord(bytes: Buffer): FoundRecord | undefined {
  const found = [0, 1].flatMap(
    (slot) => decodeSlot(bytes.subarray(slot * SLOT_BYTES, (slot + 1) * SLOT_BYTES), slot) ?? [],
  );
  return found.sort((a, b) => b.counter - a.counter)[0];
}

/** Returns whether another record is to take the place of this one: not the same, and not that of a late order. */
export function isOvertaken(found: WrittenRecord, record: WrittenRecord): boolean {
  if (found.diskId !== record.diskId || found.sessionNumber < record.sessionNumber) return true;
  if (found.sessionNumber > record.sessionNumber || found.layout > record.layout) return false;
  return textOf(found, 0) !== textOf(record, 0);
}

function textOf({ diskId, sessionNumber, parts, ...rest }: WrittenRecord, counter: number): string {
  const { diskSizeBytes, blockSizeBytes, pool, partCount, layout, clean } = rest;
  const placed = parts.map(({ index, offsetBytes, sizeBytes }) => [index, offsetBytes, sizeBytes]);
  const disk = { diskId, diskSizeBytes, blockSizeBytes, pool, partCount };
  return JSON.stringify({ counter, sessionNumber, layout, clean, ...disk, parts: placed });
}

/** Returns the record of a slot; undefined unless the slot is whole. */
function decodeSlot(bytes: Buffer, slot: number): FoundRecord | undefined {
  if (bytes.length < SLOT_BYTES || !bytes.subarray(0, SUM_AT).equals(MAGIC)) return undefined;
  const endAt = TEXT_AT + bytes.readUInt32LE(LENGTH_AT);
  if (endAt > SLOT_BYTES || bytes.readUInt32LE(SUM_AT) !== crc32c(bytes.subarray(LENGTH_AT, endAt))) return undefined;
  try {
    return { ...parseText(JSON.parse(bytes.toString("utf8", TEXT_AT, endAt))), slot };
  } catch {
    // The checksum proves that nothing is torn, not that an agent has written it.
    return undefined;
  }
}

function parseText(text: Record<keyof WrittenRecord | "counter", unknown>): Omit<FoundRecord, "slot"> {
  const record: WrittenRecord = {
    diskId: parseDiskId(String(text.diskId)),
    sessionNumber: asCount(text.sessionNumber),
    diskSizeBytes: asCount(text.diskSizeBytes),
    blockSizeBytes: asCount(text.blockSizeBytes),
    pool: String(text.pool),
    partCount: asCount(text.partCount),
    parts: (text.parts as unknown[][]).map(([index, offsetBytes, sizeBytes]) => {
      return { index: asCount(index), offsetBytes: asCount(offsetBytes), sizeBytes: asCount(sizeBytes) };
    }),
    layout: asCount(text.layout),
    clean: text.clean === true,
  };
  return { record, counter: asCount(text.counter) };
}
