import { dirname, join } from "node:path";
import { crc32 } from "node:zlib";
import { type DomainError, diskFullError, InvalidStateError, messageOf, UnavailableError } from "@diskmesh/domain";
import type { Files, OpenFile } from "./files.js";
import { type FileId, isTorn, jsonOf, lineOf, sumOf } from "./lines.js";

const NEWLINE = 10;
/** Number of bytes after which reading yields to the event loop. */
const PIECE_BYTES = 2 ** 20;

/** Position behind a line, and the checksum of all lines before it. */
export interface Place {
  readonly end: number;
  readonly sum: number;
}

/** Position of a line, its size without newline, and the checksum of all lines before it. */
export interface LinePlace {
  readonly at: number;
  readonly sizeBytes: number;
  readonly seed: number;
}

/** Called with each line's JSON text (valid only during the call). Returning false stops the reading. */
export type OnLine = (json: Buffer, place: LinePlace) => unknown;

export interface ReadOptions {
  /** The file's kind and number. A chained file with others is damaged. Omitted for files that are never chained. */
  readonly id?: FileId | undefined;
  /** Position to which the file is read; the sum, if known, is that of its lines. */
  readonly upTo?: { readonly end: number; readonly sum?: number | undefined } | undefined;
  /** True for a file that was complete before it got its name, so that a crash cannot have torn its last line. */
  readonly isComplete?: boolean | undefined;
}

/** Result of a read: the position behind the last complete line, and whether the checksums of the lines are chained. */
export interface Read extends Place {
  readonly isChained: boolean;
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
    return this.files.open(path, flags).then((file) => new LineFile(this.what, path, file, 0, 0));
  }

  /**
   * Opens a file for appending. Syncs its complete lines, which end at `end` with the checksum `sum`, and truncates
   * everything behind them.
   */
  async reopen(path: string, { end, sum }: Place): Promise<LineFile> {
    const file = await this.files.open(path, "a");
    try {
      const { size } = await file.stat();
      if (size > end) await file.truncate(end);
      if (size > 0) await file.datasync();
      return new LineFile(this.what, path, file, end, sum);
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
   * Calls back with each line. Files of the first release, whose lines are not chained, are recognized by their first
   * line, which states no kind. Ignores a last line that a crash tore, unless the options exclude that. Throws
   * InvalidStateError for all other damage.
   */
  async read(path: string, onLine: OnLine, options: ReadOptions = {}): Promise<Read> {
    const file = await this.#openToRead(path);
    try {
      const { size } = await file.stat();
      const { upTo } = options;
      if (upTo !== undefined && size < upTo.end)
        throw this.damaged(path, size, `the file had ${upTo.end} bytes before`);
      return await this.#readLines(path, file, onLine, { ...options, size });
    } finally {
      await file.close();
    }
  }

  /** Returns the JSON text of a line without its newline. Throws InvalidStateError when the checksum does not match. */
  jsonOf(path: string, line: Buffer, { at, seed }: Pick<LinePlace, "at" | "seed">): Buffer {
    const json = jsonOf(line, seed);
    if (json !== undefined) return json;
    throw this.damaged(path, at, "the line there has another checksum");
  }

  damaged(path: string, at: number, how: string): InvalidStateError {
    return new InvalidStateError(`${path} is damaged at byte ${at}: ${how}; ${this.cure}`);
  }

  async #readLines(
    path: string,
    file: OpenFile,
    onLine: OnLine,
    { size, id, upTo, isComplete = false }: ReadOptions & { readonly size: number },
  ): Promise<Read> {
    const limit = upTo?.end ?? size;
    const mayBeTorn = upTo === undefined && !isComplete;
    // Reused for each piece; doubled for a longer line.
    let buffer = Buffer.allocUnsafe(Math.min(PIECE_BYTES, limit + 1));
    let [at, filled, sum, isChained] = [0, 0, 0, false];
    for (let bytesRead = 1; bytesRead > 0; ) {
      if (filled === buffer.length) buffer = Buffer.concat([buffer], 2 * filled);
      const wanted = Math.min(buffer.length - filled, limit - at - filled);
      ({ bytesRead } = await file.read(buffer, filled, wanted, at + filled));
      filled += bytesRead;
      const bytes = buffer.subarray(0, filled);
      let from = 0;
      for (let to = bytes.indexOf(NEWLINE); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
        const line = bytes.subarray(from, to);
        const place = { at: at + from, sizeBytes: to - from, seed: isChained ? sum : 0 };
        if (mayBeTorn && line.includes(0) && isTorn(await tailOf(file, place.at, size), place.at, place.seed))
          return { end: place.at, sum, isChained };
        const json = this.jsonOf(path, line, place);
        if (place.at === 0) isChained = this.#isChained(path, json, id);
        sum = crc32(json, sum);
        from = to + 1;
        if (onLine(json, place) === false) return { end: at + from, sum, isChained };
      }
      buffer.copyWithin(0, from, filled);
      at += from;
      filled -= from;
    }
    const isCut = filled > 0 && !(mayBeTorn && isTorn(buffer.subarray(0, filled), at, isChained ? sum : 0));
    if (isCut) throw this.damaged(path, at, "the line there is cut off");
    if (upTo?.sum !== undefined && upTo.sum !== sum)
      throw this.damaged(path, at, "the lines before it are not those that were written");
    return { end: at, sum, isChained };
  }

  /** Returns true when the first line states the kind and number of a chained file; throws when they are others. */
  #isChained(path: string, json: Buffer, id: FileId | undefined): boolean {
    if (id === undefined) return false;
    const { kind, number } = JSON.parse(json.toString()) as Partial<FileId>;
    if (kind === undefined) return false;
    if (kind === id.kind && number === id.number) return true;
    throw this.damaged(path, 0, `its first line is that of ${kind} ${number}`);
  }

  async #openToRead(path: string): Promise<OpenFile> {
    try {
      return await this.files.open(path, "r");
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
      throw new InvalidStateError(`${path} is missing: ${this.cure}`);
    }
  }
}

async function tailOf(file: OpenFile, at: number, size: number): Promise<Buffer> {
  const tail = Buffer.alloc(size - at);
  await file.read(tail, 0, tail.length, at);
  return tail;
}

/** A file to which lines are appended. A failed append is removed again. */
export class LineFile {
  #broken: Error | undefined;

  constructor(
    private readonly what: string,
    readonly path: string,
    readonly handle: OpenFile,
    public sizeBytes: number,
    /** Checksum of the last line of a chained file; 0 for an empty file. */
    public sum: number,
  ) {}

  /**
   * Appends lines to a chained file; resolves with their places once they are durable, or, with `sync: false`, once they
   * are written. The first line of the file must be an object with the fields of FileId.
   */
  async appendChained(values: readonly unknown[], options: { readonly sync?: boolean } = {}): Promise<LinePlace[]> {
    const [lines, places]: [Buffer[], LinePlace[]] = [[], []];
    let [at, seed] = [this.sizeBytes, this.sum];
    for (const value of values) {
      const line = lineOf(value, seed, lines.length > 0);
      lines.push(line);
      places.push({ at, sizeBytes: line.length - 1, seed });
      at += line.length;
      seed = sumOf(line);
    }
    await this.append(lines.length === 1 ? (lines[0] as Buffer) : Buffer.concat(lines), options);
    this.sum = seed;
    return places;
  }

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
