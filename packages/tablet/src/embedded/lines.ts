import { crc32 } from "node:zlib";

/** Length of the checksum before each JSON text: 8 hexadecimal digits and a mark. */
const CHECKSUM_BYTES = 9;
/** Mark of the first line of an append, and of its other lines. They differ by several bits. */
const FIRST = " ";
const CONTINUED = "+";
const NEWLINE = 10;
/** Size of the smallest unit that a disk writes completely or not at all. Larger sectors are multiples of it. */
const SECTOR_BYTES = 512;

/** Kind and number of a chained file, as its first line states them. */
export interface FileId {
  readonly kind: string;
  readonly number: number;
}

/**
 * Encodes a line: CRC-32, a space (a plus sign if it was appended together with the line before), JSON text, a newline.
 * `cut -c10- FILE | jq .` prints a file of lines. The CRC-32 continues from `seed`. In a chained file the seed is the
 * checksum of the line before, and 0 for the first line.
 */
export function lineOf(value: unknown, seed = 0, isContinued = false): Buffer {
  const text = JSON.stringify(value);
  const line = Buffer.allocUnsafe(CHECKSUM_BYTES + Buffer.byteLength(text) + 1);
  line.write(text, CHECKSUM_BYTES);
  const mark = isContinued ? CONTINUED : FIRST;
  line.write(hexOfSum(crc32(line.subarray(CHECKSUM_BYTES, -1), seed)) + mark, "latin1");
  line[line.length - 1] = NEWLINE;
  return line;
}

/** Returns the checksum that a line of `lineOf` states. */
export function sumOf(line: Buffer): number {
  return Number.parseInt(line.toString("latin1", 0, CHECKSUM_BYTES - 1), 16);
}

/** Returns the JSON text of a line without newline; undefined when the checksum does not match. */
export function jsonOf(line: Buffer, seed: number): Buffer | undefined {
  const json = line.subarray(CHECKSUM_BYTES);
  const hex = hexOfSum(crc32(json, seed));
  return [hex + FIRST, hex + CONTINUED].includes(line.toString("latin1", 0, CHECKSUM_BYTES)) ? json : undefined;
}

function hexOfSum(sum: number): string {
  return sum.toString(16).padStart(8, "0");
}

/**
 * Returns true for the end of a file that an interrupted append leaves. `tail` is the file from the byte `at`, behind
 * the last intact line, to the end of the file. Either its newline is missing, or sectors of it were never written: runs
 * of NUL bytes that reach from a sector's start, or from `at`, to a sector's end or the file's. JSON contains no NUL
 * bytes. Its lines are those of one append.
 */
export function isTorn(tail: Buffer, at: number, seed: number): boolean {
  const end = at + tail.length;
  let hasUnwritten = false;
  for (let from = tail.indexOf(0); from >= 0; ) {
    let to = from;
    while (tail[to] === 0) to++;
    const isToEnd = at + to === end;
    const startsWell = from === 0 || (at + from) % SECTOR_BYTES === 0;
    if (!isToEnd && !(startsWell && (at + to) % SECTOR_BYTES === 0)) return false;
    hasUnwritten = true;
    from = tail.indexOf(0, to);
  }
  for (let next = tail.indexOf(NEWLINE) + 1; next > 0; next = tail.indexOf(NEWLINE, next) + 1)
    if (!hasUnwritten || tail[next + CHECKSUM_BYTES - 1] === FIRST.charCodeAt(0)) return false;
  // A whole line with another byte in place of its newline was written completely, so it is damaged.
  return hasUnwritten || jsonOf(tail.subarray(0, -1), seed) === undefined;
}
