import { InvalidArgumentError, messageOf, ResourceExhaustedError, UnavailableError } from "@diskmesh/domain";
import type { EventLog } from "../storage.js";
import { LmdbEnvironment, type LmdbOptions, type TextDatabase } from "./environment.js";

/** Lines that one call may append or read. */
const LINES_MAX = 10_000;
const LINE_SIZE_BYTES_MAX = 1024 * 1024;
/** A drop deletes so many lines per transaction, so that appends of others get their turn. */
const DROP_LINES = 1_000;

/** An event log in a folder of its own. */
export function openLmdbEventLog(options: LmdbOptions): EventLog {
  return new LmdbEventLog(options);
}

class LmdbEventLog implements EventLog {
  readonly #options: LmdbOptions;
  #opened: Promise<{ environment: LmdbEnvironment; lines: TextDatabase }> | undefined;

  constructor(options: LmdbOptions) {
    this.#options = options;
  }

  async append(stream: string, lines: readonly string[]): Promise<number> {
    checkStream(stream);
    checkLines(lines);
    const { environment, lines: database } = await this.#open();
    return this.#write(environment, () => {
      let next = nextIndex(database, stream);
      for (const line of lines) database.putSync(lineKey(stream, next++), line);
      return next;
    });
  }

  async read(
    stream: string,
    { from, limit }: { from: number; limit: number },
  ): Promise<{ lines: string[]; next: number }> {
    checkStream(stream);
    if (!Number.isSafeInteger(from) || from < 0)
      throw new InvalidArgumentError(`from is ${from}; it must be 0 or more`);
    if (!Number.isSafeInteger(limit) || limit < 0)
      throw new InvalidArgumentError(`limit is ${limit}; it must be 0 or more`);
    const { lines: database } = await this.#open();
    const range = { start: lineKey(stream, from), end: endKey(stream), limit: Math.min(limit, LINES_MAX) };
    const lines = limit === 0 ? [] : Array.from(database.getRange(range), ({ value }) => value);
    return { lines, next: from + lines.length };
  }

  async drop(stream: string): Promise<void> {
    checkStream(stream);
    const { environment, lines: database } = await this.#open();
    // From the last line back: what a crash leaves half dropped is still a log without gaps.
    const range = { start: endKey(stream), end: beforeFirst(stream), reverse: true, limit: DROP_LINES };
    for (;;) {
      const keys = [...database.getKeys(range)];
      if (keys.length === 0) return;
      await this.#write(environment, () => {
        for (const key of keys) database.removeSync(key);
      });
    }
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

  #open(): Promise<{ environment: LmdbEnvironment; lines: TextDatabase }> {
    this.#opened ??= LmdbEnvironment.open("event log", this.#options).then((environment) => ({
      environment,
      lines: environment.database("lines"),
    }));
    return this.#opened;
  }

  async #write<T>(environment: LmdbEnvironment, action: () => T): Promise<T> {
    try {
      return await environment.write(action);
    } catch (error) {
      throw new UnavailableError(`cannot write to the event log in ${this.#options.folder}: ${messageOf(error)}`, {
        cause: error,
        outcome: "unknown",
      });
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
  return last === undefined ? 0 : Number(last.readBigUInt64BE(stream.length + 1)) + 1;
}

function checkStream(stream: string): void {
  if (/^[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}$/.test(stream)) return;
  throw new InvalidArgumentError(
    `${JSON.stringify(stream.slice(0, 200))} is not a stream name: 1 to 200 letters, digits and . _ : / -, first a letter or digit`,
  );
}

function checkLines(lines: readonly string[]): void {
  if (lines.length > LINES_MAX)
    throw new ResourceExhaustedError(`${lines.length} lines in one append; the limit is ${LINES_MAX}`);
  for (const line of lines) {
    const sizeBytes = Buffer.byteLength(line);
    if (sizeBytes > LINE_SIZE_BYTES_MAX) {
      throw new ResourceExhaustedError(`a line of ${sizeBytes} bytes; the limit is ${LINE_SIZE_BYTES_MAX}; split it`);
    }
  }
}
