import type { Readable } from "node:stream";

const NEWLINE = 0x0a;

export interface LineLimits {
  readonly maxLineBytes: number;
  readonly onLine: (line: string) => void;
  /** Called once; reading stops. */
  readonly onTooLong: () => void;
}

/** Reads lines with a maximum length. */
export function readLines(stream: Readable, { maxLineBytes, onLine, onTooLong }: LineLimits): void {
  let pieces: Buffer[] = [];
  let sizeBytes = 0;
  let over = false;
  const add = (piece: Buffer): void => {
    pieces.push(piece);
    sizeBytes += piece.length;
    if (sizeBytes > maxLineBytes) {
      over = true;
      pieces = [];
      stream.destroy();
      onTooLong();
    }
  };
  stream.on("error", () => undefined);
  stream.on("data", (chunk: Buffer) => {
    let start = 0;
    while (!over) {
      const end = chunk.indexOf(NEWLINE, start);
      add(chunk.subarray(start, end < 0 ? undefined : end));
      if (end < 0 || over) return;
      const [only] = pieces;
      const line = (pieces.length === 1 && only ? only : Buffer.concat(pieces)).toString("utf8");
      pieces = [];
      sizeBytes = 0;
      start = end + 1;
      onLine(line);
    }
  });
}
