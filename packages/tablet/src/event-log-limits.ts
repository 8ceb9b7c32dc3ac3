import { InvalidArgumentError, ResourceExhaustedError } from "@diskmesh/domain";

/** Lines that one call may append or read. */
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
