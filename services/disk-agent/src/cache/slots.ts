import { crc32 } from "node:zlib";
import { unseal } from "./seal.js";

/**
 * Stores a sealed text in two slots of equal size: a write goes into one slot while the other slot stays valid. A slot
 * consists of lines of 512 bytes, which a disk writes whole or not at all. Each line begins with its checksum and the
 * number of its write. After an interrupted write all lines are intact, and belong to that write or to the slot's
 * previous one; the other slot counts then, because the agent did not act on the interrupted write. Any other content
 * is damage, and the whole cache counts as lost.
 */

const LINE_BYTES = 512;
const CHECKSUM_DIGITS = 8;
const NUMBER_DIGITS = 16;
const TEXT_BYTES = LINE_BYTES - CHECKSUM_DIGITS - NUMBER_DIGITS - 1;
/** Number of slots. */
const SLOTS = 2;
/** Size of a file system's block; the slot size is a multiple of it. */
const BLOCK_BYTES = 4_096;

/** Returns the slot size for a text of that length, with spare space. */
export function slotBytesFor(textLength: number): number {
  const neededBytes = Math.ceil((textLength * 1.25) / TEXT_BYTES) * LINE_BYTES;
  return Math.ceil(neededBytes / BLOCK_BYTES) * BLOCK_BYTES;
}

/** Returns whether an ASCII text of that length fits into a slot. */
export function fitsSlot(textLength: number, slotBytes: number): boolean {
  return textLength <= (slotBytes / LINE_BYTES) * TEXT_BYTES;
}

/** Returns the file offset of the write with that number. Consecutive writes go to different slots. */
export function slotOffset(number: number, slotBytes: number): number {
  return (number % SLOTS) * slotBytes;
}

/** Returns one slot's contents. */
export function encodeSlot(text: string, number: number, slotBytes: number): string {
  const digits = hex(number, NUMBER_DIGITS);
  let slot = "";
  for (let at = 0; slot.length < slotBytes; at += TEXT_BYTES) {
    const line = digits + text.slice(at, at + TEXT_BYTES).padEnd(TEXT_BYTES);
    slot += `${checksum(line)}${line}\n`;
  }
  return slot;
}

const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");

const checksum = (line: string): string => hex(crc32(line), CHECKSUM_DIGITS);

/** Returns a complete file with this text in both slots, as writes 1 and 2. */
export function encodeSlots(text: string, slotBytes: number): string {
  return encodeSlot(text, 2, slotBytes) + encodeSlot(text, 1, slotBytes);
}

/** Returns the last written text of a file. Throws an Error when it cannot be trusted. */
export function latestText(contents: string): string {
  // An agent of 0.1.0 that stopped cleanly left the text without slots.
  if (contents.startsWith("{")) return contents;
  const slotBytes = contents.length / SLOTS;
  if (slotBytes % LINE_BYTES !== 0) throw new Error("the file's length does not fit two slots with checksums");
  const [even, odd] = [readSlot(contents.slice(0, slotBytes)), readSlot(contents.slice(slotBytes))];
  const [former, latest] = even.number < odd.number ? [even, odd] : [odd, even];
  if (even.number % 2 !== 0 || odd.number % 2 !== 1 || latest.number - former.number !== 1)
    throw new Error(`the two slots have writes ${even.number} and ${odd.number}, which are not consecutive`);
  const found = latest.text ?? former.text;
  if (found === undefined) throw new Error("both slots have an interrupted write");
  return found;
}

/** Returns the number and text of a slot's write; the text is undefined when the write was interrupted. */
function readSlot(slot: string): { readonly number: number; readonly text: string | undefined } {
  const numbers = new Set<number>();
  let text = "";
  for (let at = 0; at < slot.length; at += LINE_BYTES) {
    const line = slot.slice(at + CHECKSUM_DIGITS, at + LINE_BYTES - 1);
    if (slot.slice(at, at + LINE_BYTES) !== `${checksum(line)}${line}\n`)
      throw new Error("the checksum of a line does not match the line");
    numbers.add(Number.parseInt(line.slice(0, NUMBER_DIGITS), 16));
    text += line.slice(NUMBER_DIGITS);
  }
  const number = Math.max(...numbers);
  for (const other of numbers)
    if (other !== number && other !== number - SLOTS)
      throw new Error(`a slot has lines of two writes, ${other} and ${number}`);
  if (numbers.size > 1) return { number, text: undefined };
  const written = `${text.trimEnd()}\n`;
  unseal(written);
  return { number, text: written };
}
