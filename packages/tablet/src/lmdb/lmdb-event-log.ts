import { messageOf, UnavailableError } from "@diskmesh/domain";
import {
  checkKeys,
  checkLines,
  checkPage,
  checkRange,
  checkRecords,
  checkStream,
  LINES_MAX,
  RECORDS_MAX,
} from "../event-log-limits.js";
import type { EventLog, LogRecord, RecordRange } from "../storage.js";
import { LmdbEnvironment, type LmdbOptions, type TextDatabase } from "./environment.js";
import { CHANGE_BYTES, noRoomError } from "./room.js";

/** A drop deletes so many lines per transaction, so that appends of others get their turn. */
const DROP_LINES = 1_000;

interface KeyRange {
  readonly start: Buffer;
  readonly end: Buffer;
  readonly reverse?: boolean;
}

interface Opened {
  readonly environment: LmdbEnvironment;
  readonly lines: TextDatabase;
  readonly records: TextDatabase;
}

/** What a line takes beside its text: its key, with the longest name of a stream, and where it is. */
const LINE_BYTES = 512;

/** An event log in a folder of its own. */
export function openLmdbEventLog(options: LmdbOptions): EventLog {
  return new LmdbEventLog(options);
}

class LmdbEventLog implements EventLog {
  readonly #options: LmdbOptions;
  #opened: Promise<Opened> | undefined;
  /** By stream, while lines of it are being written: the index of the next one, and how many appends there are. */
  readonly #appending = new Map<string, { next: number; count: number }>();

  constructor(options: LmdbOptions) {
    this.#options = options;
  }

  async append(stream: string, lines: readonly string[]): Promise<number> {
    checkStream(stream);
    checkLines(lines);
    const { environment, lines: database } = await this.#open();
    let sizeBytes = CHANGE_BYTES;
    // In a row, so that only the last page of theirs is not full.
    for (const line of lines) sizeBytes += LINE_BYTES + Buffer.byteLength(line);
    const appending = this.#appending.get(stream) ?? { next: nextIndex(database, stream), count: 0 };
    this.#appending.set(stream, appending);
    appending.count++;
    let next = appending.next;
    const write = (): void => {
      for (const line of lines) void database.put(lineKey(stream, next++), line);
      appending.next = next;
    };
    try {
      await this.#writing(() => environment.writeBlindly(sizeBytes, write));
      return next;
    } finally {
      if (--appending.count === 0) this.#appending.delete(stream);
    }
  }

  async read(
    stream: string,
    { from, limit }: { from: number; limit: number },
  ): Promise<{ lines: string[]; next: number }> {
    checkStream(stream);
    checkPage({ from, limit });
    const { lines: database } = await this.#open();
    const range = { start: lineKey(stream, from), end: endKey(stream), limit: Math.min(limit, LINES_MAX) };
    const found = limit === 0 ? [] : [...database.getRange(range)];
    const last = found.at(-1);
    // The first lines may have been forgotten.
    return { lines: found.map(({ value }) => value), next: last === undefined ? from : indexOf(stream, last.key) + 1 };
  }

  async bounds(stream: string): Promise<{ first: number; next: number }> {
    checkStream(stream);
    const { lines: database } = await this.#open();
    const next = nextIndex(database, stream);
    const [first] = database.getKeys({ start: lineKey(stream, 0), end: endKey(stream), limit: 1 });
    return { first: first === undefined ? next : indexOf(stream, first), next };
  }

  async trim(stream: string, below: number): Promise<void> {
    const { next } = await this.bounds(stream);
    const { environment, lines } = await this.#open();
    const end = lineKey(stream, Math.min(below, Math.max(0, next - 1)));
    await this.#removeAll(environment, lines, { start: lineKey(stream, 0), end });
  }

  async drop(stream: string): Promise<void> {
    checkStream(stream);
    const { environment, lines } = await this.#open();
    // From the last line back: what a crash leaves half dropped is still a log without gaps.
    await this.#removeAll(environment, lines, { start: endKey(stream), end: beforeFirst(stream), reverse: true });
  }

  async addRecords(added: readonly LogRecord[]): Promise<void> {
    checkRecords(added);
    const { environment, records } = await this.#open();
    let sizeBytes = 0;
    for (const { key, text } of added) sizeBytes += CHANGE_BYTES + Buffer.byteLength(key) + Buffer.byteLength(text);
    await this.#write(environment, sizeBytes, () => {
      for (const { key, text } of added)
        if (!records.doesExist(Buffer.from(key))) records.putSync(Buffer.from(key), text);
    });
  }

  async readRecords(range: RecordRange): Promise<LogRecord[]> {
    checkRange(range);
    const { prefix, after, descending = false } = range;
    const limit = Math.min(range.limit, RECORDS_MAX);
    if (limit === 0) return [];
    const { records } = await this.#open();
    // Backwards, the end is exclusive, and so is a key without anything after the prefix.
    const [low, high] = [Buffer.from(`${after ?? prefix}\x00`), Buffer.from(`${prefix}\x7f`)];
    const between = descending ? { start: high, end: low, reverse: true, limit } : { start: low, end: high, limit };
    return Array.from(records.getRange(between), ({ key, value }) => ({ key: key.toString(), text: value }));
  }

  async removeRecords(keys: readonly string[]): Promise<void> {
    checkKeys(keys);
    const { environment, records } = await this.#open();
    await this.#write(environment, keys.length * CHANGE_BYTES, () => {
      for (const key of keys) records.removeSync(Buffer.from(key));
    });
  }

  async close(): Promise<void> {
    const opened = this.#opened;
    this.#opened = Promise.reject(new UnavailableError(`the event log in ${this.#options.folder} is closed`));
    this.#opened.catch(() => {});
    await opened?.then(
      ({ environment }) => environment.close(),
      () => {},
    );
  }

  async #removeAll(environment: LmdbEnvironment, database: TextDatabase, range: KeyRange): Promise<void> {
    for (;;) {
      const keys = [...database.getKeys({ ...range, limit: DROP_LINES })];
      if (keys.length === 0) return;
      await this.#write(environment, keys.length * LINE_BYTES, () => {
        for (const key of keys) database.removeSync(key);
      });
    }
  }

  #open(): Promise<Opened> {
    this.#opened ??= LmdbEnvironment.open("event log", this.#options).then((environment) => ({
      environment,
      lines: environment.database("lines"),
      records: environment.database("records"),
    }));
    return this.#opened;
  }

  #write<T>(environment: LmdbEnvironment, sizeBytes: number, action: () => T): Promise<T> {
    return this.#writing(() => environment.write(sizeBytes, action));
  }

  async #writing<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write();
    } catch (error) {
      const noRoom = noRoomError(error, "cannot write to the event log", this.#options.folder, "unknown");
      throw (
        noRoom ??
        new UnavailableError(`cannot write to the event log in ${this.#options.folder}: ${messageOf(error)}`, {
          cause: error,
          outcome: "unknown",
        })
      );
    }
  }
}

/** Stream, a separator that no stream name holds, and the index so that bytes sort as numbers. */
function lineKey(stream: string, index: number): Buffer {
  const key = Buffer.alloc(stream.length + 9);
  key.write(stream, "latin1");
  key.writeBigUInt64BE(BigInt(index), stream.length + 1);
  return key;
}

/** Above every line of the stream and below every other stream's. */
function endKey(stream: string): Buffer {
  return Buffer.from(`${stream}\x01`, "latin1");
}

/** Below every line of the stream and above every other stream's: ranges that run backwards exclude their end. */
function beforeFirst(stream: string): Buffer {
  return Buffer.from(`${stream}\x00`, "latin1");
}

function nextIndex(lines: TextDatabase, stream: string): number {
  const [last] = lines.getKeys({ start: endKey(stream), end: beforeFirst(stream), reverse: true, limit: 1 });
  return last === undefined ? 0 : indexOf(stream, last) + 1;
}

function indexOf(stream: string, key: Buffer): number {
  return Number(key.readBigUInt64BE(stream.length + 1));
}
