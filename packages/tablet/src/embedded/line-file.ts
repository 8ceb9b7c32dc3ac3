import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { type DomainError, diskFullError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Files, OpenFile } from "./files.js";

/** Length of the checksum before each JSON text: 8 hexadecimal digits and a space. */
const CHECKSUM_BYTES = 9;
const NEWLINE = 10;
/** Number of bytes after which reading yields to the event loop. */
const PIECE_BYTES = 2 ** 20;

/**
 * Called with each line's JSON text (valid only during the call), the position of the line, and its size. Returning
 * false stops the reading.
 */
export type OnLine = (json: Buffer, at: number, sizeBytes: number) => unknown;

/**
 * Encodes a line: CRC-32 of the JSON text, a space, the text, a newline. `cut -c10- FILE | jq .` prints such a file.
 */
export function lineOf(value: unknown): Buffer {
  const text = JSON.stringify(value);
  const line = Buffer.allocUnsafe(CHECKSUM_BYTES + Buffer.byteLength(text) + 1);
  line.write(text, CHECKSUM_BYTES);
  line.write(checksumOf(line.subarray(CHECKSUM_BYTES, -1)), "latin1");
  line[line.length - 1] = NEWLINE;
  return line;
}

function checksumOf(json: Buffer): string {
  return `${crc32(json).toString(16).padStart(8, "0")} `;
}

/** Reads and writes files in one folder that consist of lines with checksums. */
export class LineFiles {
  /** `what` describes the folder's content and `cure` the remedy for damage, for messages. */
  constructor(
    readonly files: Files,
    readonly what: "tablet" | "event log",
    readonly cure: string,
  ) {}

  create(path: string, flags: "ax" | "w"): Promise<LineFile> {
    return this.files.open(path, flags).then((file) => new LineFile(this.what, path, file, 0));
  }

  /** Opens a file for appending. Syncs its complete lines and truncates everything behind them. */
  async reopen(path: string, sizeBytes: number): Promise<LineFile> {
    const file = await this.files.open(path, "a");
    try {
      const { size } = await file.stat();
      if (size > sizeBytes) await file.truncate(sizeBytes);
      if (size > 0) await file.datasync();
      return new LineFile(this.what, path, file, sizeBytes);
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Writes a small file durably; removes it when the write fails. */
  async write(folder: string, name: string, bytes: Buffer): Promise<void> {
    const file = await this.create(join(folder, name), "w");
    try {
      await file.append(bytes);
      await this.files.syncFolder(folder);
    } catch (error) {
      await this.files.remove(file.path);
      throw error;
    } finally {
      await file.close();
    }
  }

  /** Creates or replaces a file atomically: after a crash either the former file or the complete new one exists. */
  async replace(folder: string, name: string, pieces: AsyncIterable<Buffer>): Promise<number> {
    const draft = await this.create(join(folder, `${name}.draft`), "w");
    try {
      for await (const piece of pieces) await draft.append(piece, { sync: false });
      await draft.append(Buffer.alloc(0));
      await this.files.rename(draft.path, join(folder, name));
      await this.files.syncFolder(folder);
      return draft.sizeBytes;
    } finally {
      await draft.close();
      await this.files.remove(draft.path);
    }
  }

  /**
   * Calls back with each line up to position `end`; resolves with the position after the last complete line. Without
   * `end`, ignores a last line that a crash tore: its newline is missing, or it contains NUL bytes, which are unwritten
   * sectors and never part of JSON. Throws InvalidStateError for all other damage.
   */
  async read(path: string, onLine: OnLine, end?: number): Promise<number> {
    const file = await this.#openToRead(path);
    try {
      const { size } = await file.stat();
      if (end !== undefined && size < end) throw this.#damaged(path, size, `the file had ${end} bytes before`);
      return await this.#readLines(path, file, onLine, { size, end });
    } finally {
      await file.close();
    }
  }

  /** Returns the JSON text of a line without its newline. Throws InvalidStateError when the checksum does not match. */
  jsonOf(path: string, at: number, line: Buffer): Buffer {
    const json = line.subarray(CHECKSUM_BYTES);
    if (line.toString("latin1", 0, CHECKSUM_BYTES) === checksumOf(json)) return json;
    throw this.#damaged(path, at, "the line there has another checksum");
  }

  async #readLines(
    path: string,
    file: OpenFile,
    onLine: OnLine,
    { size, end }: { readonly size: number; readonly end: number | undefined },
  ): Promise<number> {
    const limit = end ?? size;
    // Reused for each piece; doubled for a longer line.
    let buffer = Buffer.allocUnsafe(PIECE_BYTES);
    let at = 0;
    let filled = 0;
    for (let bytesRead = 1; bytesRead > 0; ) {
      if (filled === buffer.length) buffer = Buffer.concat([buffer], 2 * filled);
      const wanted = Math.min(buffer.length - filled, limit - at - filled);
      ({ bytesRead } = await file.read(buffer, filled, wanted, at + filled));
      filled += bytesRead;
      const bytes = buffer.subarray(0, filled);
      let from = 0;
      for (let to = bytes.indexOf(NEWLINE); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
        const line = bytes.subarray(from, to);
        if (end === undefined && at + to + 1 === size && line.includes(0)) return at + from;
        if (onLine(this.jsonOf(path, at + from, line), at + from, line.length) === false) return at + to + 1;
        from = to + 1;
      }
      buffer.copyWithin(0, from, filled);
      at += from;
      filled -= from;
    }
    if (filled > 0 && end !== undefined) throw this.#damaged(path, at, "the line there is cut off");
    return at;
  }

  async #openToRead(path: string): Promise<OpenFile> {
    try {
      return await this.files.open(path, "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      throw new InvalidStateError(`${path} is missing: ${this.cure}`);
    }
  }

  #damaged(path: string, at: number, how: string): InvalidStateError {
    return new InvalidStateError(`${path} is damaged at byte ${at}: ${how}; ${this.cure}`);
  }
}

/** A file to which lines are appended. A failed append is removed again. */
export class LineFile {
  #broken: Error | undefined;

  constructor(
    private readonly what: string,
    readonly path: string,
    readonly handle: OpenFile,
    public sizeBytes: number,
  ) {}

  /**
   * Appends lines; resolves with their position once they are durable, or, with `sync: false`, once they are written.
   */
  async append(lines: Buffer, { sync = true } = {}): Promise<number> {
    if (this.#broken !== undefined) throw this.#broken;
    try {
      await this.handle.appendFile(lines);
    } catch (error) {
      await this.#cutBack();
      throw this.#writeError(error, "not_done");
    }
    try {
      if (sync) await this.handle.datasync();
    } catch (error) {
      // After a failed sync the kernel drops the dirty pages, so only reopening the file shows what is on the disk.
      this.#broken = this.#writeError(error, "unknown");
      await this.#cutBack();
      throw this.#broken;
    }
    const at = this.sizeBytes;
    this.sizeBytes += lines.length;
    return at;
  }

  /** Makes all later appends fail with this cause. */
  refuseAppends(cause: unknown): void {
    this.#broken ??= this.#writeError(cause, "not_done");
  }

  close(): Promise<void> {
    return this.handle.close();
  }

  /** Truncates a failed append and syncs, so that no part of it remains before the next append after a power cut. */
  async #cutBack(): Promise<void> {
    try {
      await this.handle.truncate(this.sizeBytes);
      await this.handle.datasync();
    } catch (error) {
      this.#broken ??= this.#writeError(error, "unknown");
    }
  }

  #writeError(error: unknown, outcome: "not_done" | "unknown"): DomainError {
    const doing = `cannot write to the ${this.what}`;
    return (
      diskFullError(error, doing, dirname(this.path), outcome) ??
      new UnavailableError(`${doing} file ${this.path}: ${messageOf(error)}`, { cause: error, outcome })
    );
  }
}
