import { InvalidArgumentError, ResourceExhaustedError } from "@diskmesh/domain";
import type { RecordRange } from "./storage.js";

/** Maximum number of lines that one call may append or read. */
export const LINES_MAX = 10_000;
const LINE_SIZE_BYTES_MAX = 1024 * 1024;

export function checkStream(stream: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$/.test(stream)) return;
  throw new InvalidArgumentError(
    `${JSON.stringify(stream.slice(0, 200))} is not a stream name: 1 to 200 letters, digits and . _ : / -, first a letter or digit`,
  );
}

export function checkLines(lines: readonly string[]): void {
  if (lines.length > LINES_MAX)
    throw new ResourceExhaustedError(`${lines.length} lines in one append; the limit is ${LINES_MAX}`);
  for (const line of lines) {
    const sizeBytes = Buffer.byteLength(line);
    if (sizeBytes > LINE_SIZE_BYTES_MAX) {
      throw new ResourceExhaustedError(`a line of ${sizeBytes} bytes; the limit is ${LINE_SIZE_BYTES_MAX}; split it`);
    }
  }
}

export function checkPage({ from, limit }: { readonly from: number; readonly limit: number }): void {
  if (!Number.isSafeInteger(from) || from < 0) throw new InvalidArgumentError(`from is ${from}; it must be 0 or more`);
  if (!Number.isSafeInteger(limit) || limit < 0)
    throw new InvalidArgumentError(`limit is ${limit}; it must be 0 or more`);
}

/** Maximum number of records that one call may add, read or remove. */
export const RECORDS_MAX = 10_000;

export function checkRecords(records: readonly { readonly key: string; readonly text: string }[]): void {
  checkKeys(records.map(({ key }) => key));
  checkLines(records.map(({ text }) => text));
}

export function checkKeys(keys: readonly string[]): void {
  if (keys.length > RECORDS_MAX)
    throw new ResourceExhaustedError(`${keys.length} records at once; the limit is ${RECORDS_MAX}`);
  for (const key of keys) {
    if (/^[A-Za-z0-9._:/@-]{1,1000}$/.test(key)) continue;
    throw new InvalidArgumentError(
      `${JSON.stringify(key.slice(0, 200))} is not a record's key: 1 to 1000 letters, digits and . _ : / @ -`,
    );
  }
}

export function checkRange({ prefix, after, limit }: RecordRange): void {
  checkKeys([prefix, ...(after === undefined ? [] : [after])]);
  checkPage({ from: 0, limit });
}
