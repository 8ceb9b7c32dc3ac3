import {
  DomainError,
  diskFullError,
  InvalidStateError,
  type Logger,
  messageOf,
  UnavailableError,
} from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
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
import { OneAtATime } from "../one-at-a-time.js";
import type { EventLog, LogRecord, RecordRange } from "../storage.js";
import { EventRecords, RECORDS } from "./event-records.js";
import type { EventStream } from "./event-stream.js";
import { EventStreams } from "./event-streams.js";
import { type Files, systemFiles } from "./files.js";
import { LineFiles } from "./line-file.js";
import { refuseLmdbFolder } from "./lmdb-folder.js";
import { MARK, markFolder } from "./mark.js";

const CURE = "move the folder away, and the service begins a new history; its state is not in this folder";

export interface EventLogOptions {
  /** Folder of the event log; created when missing. It must contain no files of other programs. */
  readonly folder: string;
  readonly log?: Logger | undefined;
  readonly exclusive?: boolean;
  readonly files?: Files;
}

interface Opened {
  readonly lock: FolderLock | undefined;
  readonly streams: EventStreams;
  readonly records: EventRecords;
}

/** Opens an event log that is stored as files in a folder of its own, one record per line. */
export function openEmbeddedEventLog(options: EventLogOptions): EventLog {
  return new EmbeddedEventLog(options);
}

class EmbeddedEventLog implements EventLog {
  readonly #options: EventLogOptions;
  readonly #lines: LineFiles;
  readonly #recordTurns = new OneAtATime();
  #opened: Promise<Opened> | undefined;
  #isClosed = false;

  constructor(options: EventLogOptions) {
    this.#options = options;
    this.#lines = new LineFiles(options.files ?? systemFiles, "event log", CURE);
  }

  async append(stream: string, lines: readonly string[]): Promise<number> {
    checkStream(stream);
    checkLines(lines);
    return this.#use(stream, (it) => it.append(lines));
  }

  async read(stream: string, { from, limit }: { from: number; limit: number }) {
    checkStream(stream);
    checkPage({ from, limit });
    return this.#use(stream, (it) => it.read(from, Math.min(limit, LINES_MAX)));
  }

  async bounds(stream: string): Promise<{ first: number; next: number }> {
    checkStream(stream);
    return this.#use(stream, (it) => it.bounds());
  }

  async trim(stream: string, below: number): Promise<void> {
    checkStream(stream);
    await this.#use(stream, (it) => it.trim(below));
  }

  async drop(stream: string): Promise<void> {
    checkStream(stream);
    await this.#use(stream, (it) => it.drop());
  }

  async addRecords(added: readonly LogRecord[]): Promise<void> {
    checkRecords(added);
    await this.#useRecords((records) => records.add(added));
  }

  async readRecords(range: RecordRange): Promise<LogRecord[]> {
    checkRange(range);
    return this.#useRecords((records) => records.read({ ...range, limit: Math.min(range.limit, RECORDS_MAX) }));
  }

  async removeRecords(keys: readonly string[]): Promise<void> {
    checkKeys(keys);
    await this.#useRecords(async (records) => {
      await records.remove(keys);
      await records.shrink().catch((error: unknown) => {
        this.#options.log?.warn({ error: messageOf(error) }, "task record compaction failed");
      });
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await this.#opened?.catch(() => undefined);
    if (opened === undefined) return;
    this.#opened = undefined;
    await opened.streams.close();
    await this.#recordTurns.run(() => opened.records.close());
    opened.lock?.release();
  }

  async #use<T>(name: string, work: (stream: EventStream) => Promise<T>): Promise<T> {
    const { streams } = await this.#open();
    return this.#describing(() => streams.use(name, work));
  }

  async #useRecords<T>(work: (records: EventRecords) => Promise<T>): Promise<T> {
    const { records } = await this.#open();
    return this.#describing(() => this.#recordTurns.run(() => work(records)));
  }

  #open(): Promise<Opened> {
    if (this.#isClosed) throw new UnavailableError(`the event log in ${this.#options.folder} is closed`);
    this.#opened ??= this.#openFolder().catch((error: unknown) => {
      this.#opened = undefined;
      throw error;
    });
    return this.#opened;
  }

  async #openFolder(): Promise<Opened> {
    const { folder, exclusive } = this.#options;
    let lock: FolderLock | undefined;
    try {
      await this.#lines.files.makeFolder(folder);
      lock = exclusive === false ? undefined : await FolderLock.take(folder);
      const names = this.#lines.files.list(folder);
      refuseLmdbFolder(folder, names, "event log");
      const records = await this.#openRecords(names);
      return { lock, streams: new EventStreams(this.#lines, folder), records };
    } catch (error) {
      lock?.release();
      if (error instanceof DomainError) throw error;
      const noRoom = diskFullError(error, "cannot open the event log", folder);
      throw (
        noRoom ?? new InvalidStateError(`the folder ${folder} cannot be opened as an event log: ${messageOf(error)}`)
      );
    }
  }

  async #openRecords(names: readonly string[]): Promise<EventRecords> {
    const { folder } = this.#options;
    // Keeps an existing records file, which an interrupted first start leaves without the mark file.
    if (!names.includes(MARK)) {
      if (!names.includes(RECORDS)) await EventRecords.create(this.#lines, folder);
      await markFolder(this.#lines, folder);
    }
    return EventRecords.open(this.#lines, folder);
  }

  async #describing<T>(work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (error instanceof DomainError) throw error;
      const { folder } = this.#options;
      const noRoom = diskFullError(error, "cannot write to the event log", folder);
      const message = `the event log in ${folder} cannot be used: ${messageOf(error)}`;
      throw noRoom ?? new UnavailableError(message, { cause: error, outcome: "unknown" });
    }
  }
}
