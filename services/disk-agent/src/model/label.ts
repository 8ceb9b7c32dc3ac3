import { bytesText, type DeviceId, parseDeviceId, parseId } from "@diskmesh/domain";
import { crc32c } from "./crc32c.js";
import { describeFirstBytes } from "./found-bytes.js";
import type { Run } from "./runs.js";

/** The label of a device, which names the device to every agent that finds it. */
export interface DeviceLabel {
  /** Tablet of the registry that ordered the label. */
  readonly fleetId: string;
  readonly deviceId: DeviceId;
  /** Random, new for each label: 32 hex digits. */
  readonly labelId: string;
  readonly sizeBytes: number;
  readonly sliceBytes: number;
  readonly offsetBytes: number;
}

export type FoundLabel =
  | { readonly state: "none" }
  /** The device had a label, and no slot is whole. */
  | { readonly state: "damaged" }
  | {
      readonly state: "valid";
      readonly label: DeviceLabel;
      /** Grows with each writing of a label. */
      readonly counter: number;
      /** Slot that has the label. */
      readonly slot: number;
    };

/** A label, or "users" where bytes of a disk, or of one that is being erased, are in its place. */
export type LabelFinding = FoundLabel | { readonly state: "users" };

/** A block of bytes, and its place on the device. */
export interface LabelWrite {
  readonly offsetBytes: number;
  readonly bytes: Buffer;
}

/** Bytes at a device's start that have the slots. The label area of no device is smaller. */
export const LABEL_BYTES = 65_536;
export const LABEL_AREA: Run = { offsetBytes: 0, sizeBytes: LABEL_BYTES };
/** Starts of the slots. The rest of a slot has the table of runs. */
export const SLOT_OFFSETS = [0, LABEL_BYTES / 2] as const;
/** Largest block of a drive, which is written in one piece. */
export const BLOCK_BYTES = 4_096;

// A slot's block has the magic, a checksum of all that follows it, the length of the text, the text, and zeros.
const MAGIC = Buffer.from("diskmesh-label-1");
const SUM_AT = MAGIC.length;
const LENGTH_AT = SUM_AT + 4;
const TEXT_AT = LENGTH_AT + 4;

/**
 * Returns the blocks to write, one after the other, each durable before the next. The slot of the present label is the
 * last one, so that a label is whole at every moment.
 */
export function labelWrites(label: DeviceLabel, found: FoundLabel): readonly LabelWrite[] {
  const { counter, slot } = found.state === "valid" ? found : { counter: 0, slot: 1 };
  const bytes = encodeSlot(label, counter + 1);
  return [SLOT_OFFSETS[1 - slot] ?? 0, SLOT_OFFSETS[slot] ?? 0].map((offsetBytes) => ({ offsetBytes, bytes }));
}

/** Returns the label in a device's first bytes: that of the higher counter where both slots are whole. */
export function decodeLabel(bytes: Buffer): FoundLabel {
  const slots = SLOT_OFFSETS.map((offsetBytes) => bytes.subarray(offsetBytes, offsetBytes + BLOCK_BYTES));
  const [first, ...others] = slots.flatMap((block, slot) => {
    const found = decodeSlot(block);
    return found === undefined ? [] : [{ state: "valid" as const, ...found, slot }];
  });
  if (first !== undefined) return others.reduce((best, other) => (other.counter > best.counter ? other : best), first);
  return { state: slots.some(hasMagic) ? "damaged" : "none" };
}

export function isSameLabel(a: DeviceLabel, b: DeviceLabel): boolean {
  return textOf(a, 0) === textOf(b, 0);
}

/** A device, as its agent remembers it. */
interface Labelled {
  readonly deviceId: DeviceId;
  readonly path: string;
  readonly sizeBytes: number;
  /** Undefined while none is remembered. */
  readonly labelId: string | undefined;
}

/**
 * Returns how the first bytes of a drive contradict the remembered label; undefined when they do not. A drive without its
 * label was written to by another program, so only the registry, which knows what is on it, has one written again.
 */
export function whyOtherLabel({ deviceId, path, sizeBytes, labelId }: Labelled, bytes: Buffer): string | undefined {
  const found = decodeLabel(bytes);
  if (labelId === undefined) return undefined;
  if (found.state !== "valid") {
    const what = found.state === "damaged" ? "a damaged label" : describeFirstBytes(bytes);
    return `device ${deviceId} has lost its label: ${what} in its place, in the first ${bytesText(LABEL_BYTES)} of ${JSON.stringify(path)} (${bytesText(sizeBytes)}), so another program has written to the drive`;
  }
  if (found.label.labelId === labelId) return undefined;
  return `device ${deviceId} carries another label than it did: that of device ${found.label.deviceId}, with id ${found.label.labelId}`;
}

function encodeSlot(label: DeviceLabel, counter: number): Buffer {
  const text = Buffer.from(textOf(label, counter));
  if (TEXT_AT + text.length > BLOCK_BYTES) throw new Error(`the label of device ${label.deviceId} is too long`);
  const block = Buffer.alloc(BLOCK_BYTES);
  MAGIC.copy(block);
  block.writeUInt32LE(text.length, LENGTH_AT);
  text.copy(block, TEXT_AT);
  block.writeUInt32LE(crc32c(block.subarray(LENGTH_AT)), SUM_AT);
  return block;
}

function textOf({ fleetId, deviceId, labelId, sizeBytes, sliceBytes, offsetBytes }: DeviceLabel, counter: number) {
  return JSON.stringify({ counter, fleetId, deviceId, labelId, sizeBytes, sliceBytes, offsetBytes });
}

const hasMagic = (block: Buffer): boolean => block.subarray(0, SUM_AT).equals(MAGIC);

interface Slot {
  readonly label: DeviceLabel;
  readonly counter: number;
}

/** Returns the label of a block; undefined unless the block is whole. */
function decodeSlot(block: Buffer): Slot | undefined {
  if (block.length < BLOCK_BYTES || !hasMagic(block)) return undefined;
  if (block.readUInt32LE(SUM_AT) !== crc32c(block.subarray(LENGTH_AT))) return undefined;
  const text = block.subarray(TEXT_AT, TEXT_AT + block.readUInt32LE(LENGTH_AT)).toString();
  try {
    return parseSlot(JSON.parse(text));
  } catch {
    // The checksum proves that nothing is torn, not that a registry has ordered the label.
    return undefined;
  }
}

function parseSlot(slot: Record<keyof DeviceLabel | "counter", unknown>): Slot {
  if (!/^[0-9a-f]{32}$/.test(String(slot.labelId))) throw new Error("labelId is malformed");
  return {
    counter: asCount(slot.counter),
    label: {
      fleetId: parseId("fleetId", String(slot.fleetId)),
      deviceId: parseDeviceId(String(slot.deviceId)),
      labelId: String(slot.labelId),
      sizeBytes: asCount(slot.sizeBytes),
      sliceBytes: asCount(slot.sliceBytes),
      offsetBytes: asCount(slot.offsetBytes),
    },
  };
}

/** Returns the number of a label's or record's text. Throws an Error for anything but a whole number from 0. */
export function asCount(value: unknown): number {
  if (typeof value === "number" && value >= 0 && value < Number.MAX_SAFE_INTEGER && Number.isInteger(value))
    return value;
  throw new Error(`${value} is not a count`);
}
