import { crc32 } from "node:zlib";
import { unseal } from "./seal.js";

/**
 * A sealed text twice, in two slots of equal size, so that one can be written in its place while the other holds. A slot
 * is lines of 512 bytes, which a disk writes whole or not at all; each begins with a checksum of its own and the number of
 * the write that it is of. So a write that was cut off, which nobody acted upon, is told from what was damaged later: its
 * lines are whole, and of that write and the one before it there. Then the other slot counts; what was damaged counts as
 * lost, all of it.
 */

const LINE_BYTES = 512;
const CHECKSUM_DIGITS = 8;
const NUMBER_DIGITS = 16;
const TEXT_BYTES = LINE_BYTES - CHECKSUM_DIGITS - NUMBER_DIGITS - 1;
/** As many writes later a slot is written again. */
const SLOTS = 2;
/** What a file system writes at once; a slot grows by so much. */
const BLOCK_BYTES = 4_096;

/** The size of slots for a text of that length, with room for it to grow. */
export function slotBytesFor(textLength: number): number {
  const neededBytes = Math.ceil((textLength * 1.25) / TEXT_BYTES) * LINE_BYTES;
  return Math.ceil(neededBytes / BLOCK_BYTES) * BLOCK_BYTES;
}

/** Whether a text of that length, which must be ASCII, goes into a slot. */
export function fitsSlot(textLength: number, slotBytes: number): boolean {
  return textLength <= (slotBytes / LINE_BYTES) * TEXT_BYTES;
}

/** Where in the file the write of that number goes: never over the one before it. */
export function slotOffset(number: number, slotBytes: number): number {
  return (number % SLOTS) * slotBytes;
}

/** One slot's contents. */
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

/** A file that no write was cut off of yet: its next write is number 3. */
export function encodeSlots(text: string, slotBytes: number): string {
  return encodeSlot(text, 2, slotBytes) + encodeSlot(text, 1, slotBytes);
}

export const hasSlots = (contents: string): boolean => /^[0-9a-f]/.test(contents);

/** What was written last into a file, whether that has slots or not. Throws an Error when it cannot be trusted. */
export function latestText(contents: string): string {
  if (!hasSlots(contents)) return contents;
  const slotBytes = contents.length / SLOTS;
  if (slotBytes % LINE_BYTES !== 0) throw new Error("its length is not that of two slots with a checksum each");
  const [even, odd] = [readSlot(contents.slice(0, slotBytes)), readSlot(contents.slice(slotBytes))];
  const [former, latest] = even.number < odd.number ? [even, odd] : [odd, even];
  if (even.number % 2 !== 0 || odd.number % 2 !== 1 || latest.number - former.number !== 1)
    throw new Error(`its slots are of the writes ${even.number} and ${odd.number}, which do not follow each other`);
  const found = latest.text ?? former.text;
  if (found === undefined) throw new Error("of both of its slots a write was cut off");
  return found;
}

/** Of a slot that a write was cut off of, the number of that write, and no text. */
function readSlot(slot: string): { readonly number: number; readonly text: string | undefined } {
  const numbers = new Set<number>();
  let text = "";
  for (let at = 0; at < slot.length; at += LINE_BYTES) {
    const line = slot.slice(at + CHECKSUM_DIGITS, at + LINE_BYTES - 1);
    if (slot.slice(at, at + LINE_BYTES) !== `${checksum(line)}${line}\n`)
      throw new Error("a line of its slots is not what its checksum is of");
    numbers.add(Number.parseInt(line.slice(0, NUMBER_DIGITS), 16));
    text += line.slice(NUMBER_DIGITS);
  }
  const number = Math.max(...numbers);
  for (const other of numbers)
    if (other !== number && other !== number - SLOTS)
      throw new Error(`a slot holds lines of the writes ${other} and ${number}`);
  if (numbers.size > 1) return { number, text: undefined };
  const written = `${text.trimEnd()}\n`;
  if (!unseal(written).sealed) throw new Error("a slot has no checksum");
  return { number, text: written };
}
