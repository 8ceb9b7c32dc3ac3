import { randomUUID } from "node:crypto";
import { systemClock, UnavailableError } from "@diskmesh/domain";
import {
  checkKeys,
  checkLines,
  checkPage,
  checkRange,
  checkRecords,
  checkStream,
  LINES_MAX,
  RECORDS_MAX,
} from "../storage/event-log-limits.js";
import { OneAtATime } from "../storage/one-at-a-time.js";
import type { EventLog, LogRecord, RecordRange } from "../storage/storage.js";
import type { DocumentServer, StoredDocument, ViewWrite } from "./document-server.js";
import { RetryPolicy } from "./retry-policy.js";

/** Lines that were appended together. */
interface Chunk {
  /** Stream and padded index of the first line, so that ids sort by stream and number. */
  readonly _id: string;
  readonly lines: readonly string[];
  /** Id of the append, which tells a repeated append from another writer's. */
  readonly append: string;
}

export interface MongoEventLogOptions {
  readonly collection: string;
  readonly connect: () => Promise<DocumentServer>;
}

interface Opened {
  readonly server: DocumentServer;
  readonly retryPolicy: RetryPolicy;
}

const CHUNK_SIZE_BYTES = 8 * 1024 * 1024;
/** Number of chunks per read; most chunks hold few lines. */
const PAGE_CHUNKS = 100;
const GIVE_UP_AFTER_MS = 20_000;
const INDEX_DIGITS = 16;
/** Prefix of the ids of records. Stream names never begin with it. */
const RECORD_PREFIX = "/";
/**
 * `_seq` of an added record, and of its removal. A write takes effect only on a record with a lower `_seq`, so an
 * addition leaves an existing record unchanged, and a removal deletes it.
 */
const ADDED = 1;
const REMOVED = 2;

/** An event log in one collection. */
export class MongoEventLog implements EventLog {
  readonly #options: MongoEventLogOptions;
  readonly #turns = new OneAtATime();
  readonly #closed = new AbortController();
  #opened: Promise<Opened> | undefined;

  constructor(options: MongoEventLogOptions) {
    this.#options = options;
  }

  async append(stream: string, lines: readonly string[]): Promise<number> {
    checkStream(stream);
    checkLines(lines);
    return this.#turns.run(async () => {
      const opened = await this.#open();
      let next = await this.#nextIndex(opened, stream);
      for (const chunk of chunksOf(lines)) next = await this.#appendChunk(opened, stream, next, chunk);
      return next;
    });
  }

  async read(
    stream: string,
    { from, limit }: { readonly from: number; readonly limit: number },
  ): Promise<{ lines: string[]; next: number }> {
    checkStream(stream);
    checkPage({ from, limit });
    const opened = await this.#open();
    const wanted = Math.min(limit, LINES_MAX);
    const lines: string[] = [];
    let next = from;
    let after = await this.#before(opened, stream, from);
    while (lines.length < wanted) {
      const page = await this.#find(opened, { after, below: endOf(stream), limit: PAGE_CHUNKS });
      for (const chunk of page) {
        // Skips lines that an interrupted drop has deleted.
        const first = Math.max(indexOf(chunk._id), next);
        const taken = chunk.lines.slice(first - indexOf(chunk._id)).slice(0, wanted - lines.length);
        lines.push(...taken);
        if (taken.length > 0) next = first + taken.length;
      }
      if (page.length < PAGE_CHUNKS) break;
      after = (page.at(-1) as Chunk)._id;
    }
    return { lines, next };
  }

  async bounds(stream: string): Promise<{ first: number; next: number }> {
    checkStream(stream);
    const opened = await this.#open();
    const [chunk] = await this.#find(opened, { after: startOf(stream), below: endOf(stream), limit: 1 });
    const next = await this.#nextIndex(opened, stream);
    return { first: chunk === undefined ? next : indexOf(chunk._id), next };
  }

  async trim(stream: string, below: number): Promise<void> {
    const { next } = await this.bounds(stream);
    const opened = await this.#open();
    const { server, retryPolicy } = opened;
    // The chunk with the first kept line must stay.
    const end = await this.#chunkOf(opened, stream, Math.min(below, Math.max(0, next - 1)));
    const range = { after: startOf(stream), below: end };
    await this.#turns.run(() => retryPolicy.answerOf(() => server.delete(this.#options.collection, range)));
  }

  async drop(stream: string): Promise<void> {
    checkStream(stream);
    const { server, retryPolicy } = await this.#open();
    const range = { after: startOf(stream), below: endOf(stream) };
    await this.#turns.run(() => retryPolicy.answerOf(() => server.delete(this.#options.collection, range)));
  }

  async addRecords(records: readonly LogRecord[]): Promise<void> {
    checkRecords(records);
    await this.#writeRecords(records.map(({ key, text }) => ({ id: recordId(key), seq: ADDED, document: { text } })));
  }

  async readRecords({ prefix, after, limit, descending = false }: RecordRange): Promise<LogRecord[]> {
    checkRange({ prefix, after, limit });
    if (limit === 0) return [];
    const { server, retryPolicy } = await this.#open();
    const range = { after: recordId(after ?? prefix), below: recordId(`${prefix}~`), descending };
    const found = await retryPolicy.answerOf(() =>
      server.find(this.#options.collection, { ...range, limit: Math.min(limit, RECORDS_MAX) }),
    );
    return found.map(({ _id, text }) => ({ key: String(_id).slice(RECORD_PREFIX.length), text: String(text) }));
  }

  async removeRecords(keys: readonly string[]): Promise<void> {
    checkKeys(keys);
    await this.#writeRecords(keys.map((key) => ({ id: recordId(key), seq: REMOVED, document: null })));
  }

  async close(): Promise<void> {
    this.#closed.abort(new UnavailableError(`the event log ${this.#options.collection} is closed`));
    const opened = await this.#opened?.catch(() => undefined);
    await opened?.server.close();
  }

  async #open(): Promise<Opened> {
    const { signal } = this.#closed;
    signal.throwIfAborted();
    // After a failed connection attempt the next call tries again.
    this.#opened ??= this.#options.connect().then(
      (server) => {
        const [serverName, clock] = [server.name, systemClock];
        return { server, retryPolicy: new RetryPolicy({ clock, signal, serverName, giveUpAfterMs: GIVE_UP_AFTER_MS }) };
      },
      (error) => {
        this.#opened = undefined;
        throw error;
      },
    );
    return this.#opened;
  }

  async #writeRecords(writes: readonly ViewWrite[]): Promise<void> {
    if (writes.length === 0) return;
    const { server, retryPolicy } = await this.#open();
    const { refused } = await retryPolicy.answerOf(() => server.write(this.#options.collection, writes));
    if (refused !== undefined)
      throw new UnavailableError(`MongoDB at ${server.name} refused to write history: ${refused}`, {
        outcome: "unknown",
      });
  }

  async #appendChunk(opened: Opened, stream: string, index: number, lines: readonly string[]): Promise<number> {
    const { server, retryPolicy } = opened;
    const { collection } = this.#options;
    const append = randomUUID();
    for (let first = index; ; ) {
      const chunk: Chunk = { _id: chunkId(stream, first), lines, append };
      const inserted = await retryPolicy.answerOf(() => server.insert(collection, chunk as unknown as StoredDocument));
      if (inserted) return first + lines.length;
      const stored = await retryPolicy.answerOf(() => server.get(collection, chunk._id));
      if (stored?.append === append) return first + lines.length;
      first = await this.#nextIndex(opened, stream);
    }
  }

  async #nextIndex(opened: Opened, stream: string): Promise<number> {
    const range = { after: startOf(stream), below: endOf(stream), limit: 1, descending: true };
    const [last] = await this.#find(opened, range);
    return last === undefined ? 0 : indexOf(last._id) + last.lines.length;
  }

  /** Returns the id of the chunk that contains the line. */
  async #chunkOf(opened: Opened, stream: string, line: number): Promise<string> {
    const range = { after: startOf(stream), below: chunkId(stream, line + 1), limit: 1, descending: true };
    const [chunk] = await this.#find(opened, range);
    return chunk?._id ?? startOf(stream);
  }

  /** Returns an id just below that of the chunk with the line. */
  async #before(opened: Opened, stream: string, line: number): Promise<string> {
    const range = { after: startOf(stream), below: chunkId(stream, line + 1), limit: 2, descending: true };
    const [, previous] = await this.#find(opened, range);
    return previous?._id ?? startOf(stream);
  }

  async #find(opened: Opened, range: Parameters<DocumentServer["find"]>[1]): Promise<Chunk[]> {
    const found = await opened.retryPolicy.answerOf(() => opened.server.find(this.#options.collection, range));
    return found as unknown as Chunk[];
  }
}

function* chunksOf(lines: readonly string[]): Generator<readonly string[]> {
  let chunk: string[] = [];
  let sizeBytes = 0;
  for (const line of lines) {
    const lineSizeBytes = Buffer.byteLength(line) + 16;
    if (sizeBytes + lineSizeBytes > CHUNK_SIZE_BYTES) {
      yield chunk;
      chunk = [];
      sizeBytes = 0;
    }
    chunk.push(line);
    sizeBytes += lineSizeBytes;
  }
  if (chunk.length > 0) yield chunk;
}

/**
 * Returns an id below all chunks of the stream: a space occurs in no stream name and sorts below all characters that
 * do.
 */
function startOf(stream: string): string {
  return `${stream} `;
}

function endOf(stream: string): string {
  return `${stream}!`;
}

function chunkId(stream: string, index: number): string {
  return `${stream} ${String(index).padStart(INDEX_DIGITS, "0")}`;
}

function recordId(key: string): string {
  return `${RECORD_PREFIX}${key}`;
}

function indexOf(id: string): number {
  return Number(id.slice(-INDEX_DIGITS));
}
