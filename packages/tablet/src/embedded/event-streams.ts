import { OneAtATime } from "../one-at-a-time.js";
import { EventStream, streamFileOf } from "./event-stream.js";
import type { LineFiles } from "./line-file.js";

/**
 * Maximum number of streams that stay open for the next append. For other streams only the file names are in memory.
 */
const OPEN_MAX = 64;

interface Opened {
  readonly stream: EventStream;
  readonly turns: OneAtATime;
  users: number;
}

/** The streams of an event log, opened on demand. */
export class EventStreams {
  readonly #lines: LineFiles;
  readonly #folder: string;
  readonly #firsts = new Map<string, readonly number[]>();
  /** Open streams, least recently used first. */
  readonly #opened = new Map<string, Opened>();

  constructor(lines: LineFiles, folder: string) {
    this.#lines = lines;
    this.#folder = folder;
    const found = lines.files.list(folder).flatMap((name) => streamFileOf(name) ?? []);
    for (const { stream, first } of found.sort((a, b) => a.first - b.first))
      this.#firsts.set(stream, [...(this.#firsts.get(stream) ?? []), first]);
  }

  /** Runs work on a stream after all earlier work on it. */
  async use<T>(name: string, work: (stream: EventStream) => Promise<T>): Promise<T> {
    const opened = this.#opened.get(name) ?? {
      stream: new EventStream(this.#lines, this.#folder, name, this.#firsts.get(name) ?? []),
      turns: new OneAtATime(),
      users: 0,
    };
    this.#opened.delete(name);
    this.#opened.set(name, opened);
    opened.users++;
    try {
      return await opened.turns.run(() => work(opened.stream));
    } finally {
      opened.users--;
      const { firsts } = opened.stream;
      if (firsts.length > 0) this.#firsts.set(name, [...firsts]);
      else this.#firsts.delete(name);
      await this.#closeUnused(OPEN_MAX);
    }
  }

  /** Waits for all work, then closes the streams. */
  async close(): Promise<void> {
    await Promise.all(Array.from(this.#opened.values(), ({ turns }) => turns.run(async () => {})));
    await this.#closeUnused(0);
  }

  async #closeUnused(max: number): Promise<void> {
    for (const [name, { stream, users }] of this.#opened) {
      if (this.#opened.size <= max) return;
      if (users > 0) continue;
      this.#opened.delete(name);
      await stream.close();
    }
  }
}
