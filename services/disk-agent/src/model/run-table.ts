import { crc32c } from "./crc32c.js";
import { BLOCK_BYTES, LABEL_BYTES, type LabelWrite, SLOT_OFFSETS } from "./label.js";
import { overlaps, type Run } from "./runs.js";

/** A run of a disk that has, or had, a session there, and that is not erased. */
export interface TableEntry extends Run {
  /** Digest of the disk's id: 32 hex digits. */
  readonly disk: string;
}

/** Runs of a device, as its label area says. */
export interface RunTable {
  /** Runs by offset. */
  readonly entries: readonly TableEntry[];
  /** Grows with each writing; 0 when the device has no table. */
  readonly counter: number;
  /** Slot that has the table. */
  readonly slot: number;
  /** True when the device had a table, and no slot is whole. */
  readonly isDamaged: boolean;
}

/**
 * Unit of the offsets and sizes: every run begins and ends at a multiple of it, because label area and records have this size
 * or 1 MiB, and slices at least 1 MiB.
 */
export const RUN_UNIT_BYTES = 65_536;

// A slot has the magic, a checksum of all that follows it, the number of entries, the counter, and the entries.
const MAGIC = Buffer.from("diskmesh-table-1");
const SUM_AT = MAGIC.length;
const COUNT_AT = SUM_AT + 4;
const COUNTER_AT = COUNT_AT + 4;
const ENTRIES_AT = COUNTER_AT + 8;
// An entry has offset and size in units, and the digest. Ids are up to 64 bytes: with them, the runs that a device may have
// would not fit.
export const DIGEST_BYTES = 16;
const ENTRY_BYTES = 4 + 4 + DIGEST_BYTES;

/** Bytes of a slot behind the label's block. */
const SLOT_BYTES = LABEL_BYTES / SLOT_OFFSETS.length - BLOCK_BYTES;
/** Maximum runs of a table. More than the runs that a registry gives a device. */
export const MAX_TABLE_ENTRIES = Math.floor((SLOT_BYTES - ENTRIES_AT) / ENTRY_BYTES);

/** Returns the entries with this one in place of all that overlap it. */
export function withEntry(entries: readonly TableEntry[], entry: TableEntry): readonly TableEntry[] {
  return [...withoutRun(entries, entry), entry].sort((a, b) => a.offsetBytes - b.offsetBytes);
}

/** Returns the entries without those that have a byte of the run. */
function withoutRun(entries: readonly TableEntry[], run: Run): readonly TableEntry[] {
  return entries.filter((each) => !overlaps(each, run));
}

/**
 * Returns the entries without the erased bytes. One that begins before them keeps its beginning: the registry of an older
 * backup has a disk that has not grown yet, and erases only what the disk had more.
 */
export function withoutErased(entries: readonly TableEntry[], erased: Run): readonly TableEntry[] {
  return entries.flatMap((each) => {
    if (!overlaps(each, erased)) return each;
    return each.offsetBytes < erased.offsetBytes ? { ...each, sizeBytes: erased.offsetBytes - each.offsetBytes } : [];
  });
}

/** Returns the blocks that replace the table in the slot that does not have it, so that a table is whole at every moment. */
export function tableWrite({ counter, slot }: RunTable, entries: readonly TableEntry[]): LabelWrite {
  const lengthBytes = ENTRIES_AT + entries.length * ENTRY_BYTES;
  const bytes = Buffer.alloc(Math.ceil(lengthBytes / BLOCK_BYTES) * BLOCK_BYTES);
  MAGIC.copy(bytes);
  bytes.writeUInt32LE(entries.length, COUNT_AT);
  bytes.writeBigUInt64LE(BigInt(counter + 1), COUNTER_AT);
  for (const [index, { offsetBytes, sizeBytes, disk }] of entries.entries()) {
    const at = ENTRIES_AT + index * ENTRY_BYTES;
    bytes.writeUInt32LE(offsetBytes / RUN_UNIT_BYTES, at);
    bytes.writeUInt32LE(sizeBytes / RUN_UNIT_BYTES, at + 4);
    bytes.write(disk, at + 8, DIGEST_BYTES, "hex");
  }
  bytes.writeUInt32LE(crc32c(bytes.subarray(COUNT_AT, lengthBytes)), SUM_AT);
  return { offsetBytes: slotOffset(1 - slot), bytes };
}

/** Returns the table in a label area: that of the higher counter where both slots are whole. */
export function decodeTable(area: Buffer): RunTable {
  const slots = SLOT_OFFSETS.map((_, slot) => area.subarray(slotOffset(slot), slotOffset(slot) + SLOT_BYTES));
  const found = slots.flatMap((bytes, slot) => decodeSlot(bytes, slot) ?? []);
  const isDamaged = found.length === 0 && slots.some(hasMagic);
  const none: RunTable = { entries: [], counter: 0, slot: 1, isDamaged };
  return found.reduce((best, each) => (each.counter > best.counter ? each : best), none);
}

const slotOffset = (slot: number): number => (SLOT_OFFSETS[slot] ?? 0) + BLOCK_BYTES;

const hasMagic = (bytes: Buffer): boolean => bytes.subarray(0, SUM_AT).equals(MAGIC);

/** Returns the table of a slot; undefined unless the slot is whole. */
function decodeSlot(bytes: Buffer, slot: number): RunTable | undefined {
  if (bytes.length < SLOT_BYTES || !hasMagic(bytes)) return undefined;
  const count = bytes.readUInt32LE(COUNT_AT);
  if (count > MAX_TABLE_ENTRIES) return undefined;
  const endAt = ENTRIES_AT + count * ENTRY_BYTES;
  if (bytes.readUInt32LE(SUM_AT) !== crc32c(bytes.subarray(COUNT_AT, endAt))) return undefined;
  const entries: TableEntry[] = [];
  for (let at = ENTRIES_AT; at < endAt; at += ENTRY_BYTES)
    entries.push({
      offsetBytes: bytes.readUInt32LE(at) * RUN_UNIT_BYTES,
      sizeBytes: bytes.readUInt32LE(at + 4) * RUN_UNIT_BYTES,
      disk: bytes.toString("hex", at + 8, at + ENTRY_BYTES),
    });
  return { entries, counter: Number(bytes.readBigUInt64LE(COUNTER_AT)), slot, isDamaged: false };
}
