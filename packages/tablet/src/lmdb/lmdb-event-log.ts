import { messageOf, UnavailableError } from "@diskmesh/domain";
import { checkLines, checkPage, checkStream, LINES_MAX } from "../event-log-limits.js";
import type { EventLog } from "../storage.js";
import { LmdbEnvironment, type LmdbOptions, type TextDatabase } from "./environment.js";
import { noRoomError } from "./room.js";

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
    checkPage({ from, limit });
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
  return last === undefined ? 0 : Number(last.readBigUInt64BE(stream.length + 1)) + 1;
}
