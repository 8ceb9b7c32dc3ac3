import { DomainError, diskFullError, type Logger, messageOf, UnavailableError } from "@diskmesh/domain";
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
} from "../../storage/event-log-limits.js";
import type { EventLog, LogRecord, RecordRange } from "../../storage/storage.js";
import { type Files, systemFiles } from "../files.js";
import { ensureFolder } from "../folders.js";
import { LineFiles } from "../line-file.js";
import { MARK, markFolder } from "../mark.js";
import { openError } from "../open-error.js";
import { EventFiles } from "./event-files.js";
import { type Entry, entriesOf } from "./event-index.js";
import { EventJournal } from "./event-journal.js";
import { convertFirstRelease, isOfFirstRelease, removeConverted } from "./first-release-events.js";

const CURE = "move the folder away, and the service begins a new history; its state is not in this folder";

export interface EventLogOptions {
  /** Folder of the event log; created when missing. It must contain no files of other programs. */
  readonly folder: string;
  readonly log?: Logger | undefined;
  readonly exclusive?: boolean;
  readonly files?: Files;
  /** Bytes that are appended to a file until the next one begins. */
  readonly fileBytes?: number;
}

/** Subject of writes to the records. Names of streams are never empty. */
const RECORDS = "";
const FILE_BYTES = 4 * 2 ** 20;

/** Opens an event log that is stored as files in a folder of its own: one journal of all streams and records. */
export function openEmbeddedEventLog(options: EventLogOptions): EventLog {
  return new EmbeddedEventLog(options);
}

class EmbeddedEventLog implements EventLog {
  readonly #options: EventLogOptions;
  readonly #lines: LineFiles;
  #lock: FolderLock | undefined;
  #opened: Promise<EventJournal> | undefined;
  #isClosed = false;

  constructor(options: EventLogOptions) {
    this.#options = options;
    this.#lines = new LineFiles(options.files ?? systemFiles, "event log", CURE);
  }

  async append(stream: string, lines: readonly string[]): Promise<number> {
    checkStream(stream);
    checkLines(lines);
    let next = 0;
    await this.#write(stream, ({ index }) => {
      const first = index.bounds(stream).next;
      next = first + lines.length;
      return entriesOf(stream, first, lines);
    });
    return next;
  }

  async read(
    stream: string,
    { from, limit }: { readonly from: number; readonly limit: number },
  ): Promise<{ lines: string[]; next: number }> {
    checkStream(stream);
    checkPage({ from, limit });
    const wanted = Math.min(limit, LINES_MAX);
    return this.#use(({ files, index }) =>
      files.read(async (read) => {
        const first = Math.max(from, index.bounds(stream).first);
        const lines: string[] = [];
        let next = from;
        for (const range of index.linesFrom(stream, first, wanted)) {
          if (lines.length >= wanted) break;
          for (const entry of await read(range)) {
            if (!("lines" in entry)) continue;
            const skipped = Math.max(0, first - entry.first);
            const taken = entry.lines.slice(skipped, skipped + wanted - lines.length);
            if (taken.length > 0) next = entry.first + skipped + taken.length;
            lines.push(...taken);
          }
        }
        return { lines, next };
      }),
    );
  }

  async bounds(stream: string): Promise<{ first: number; next: number }> {
    checkStream(stream);
    return this.#use(async ({ index }) => index.bounds(stream));
  }

  async trim(stream: string, below: number): Promise<void> {
    checkStream(stream);
    await this.#write(stream, ({ index }) => {
      const { first, next } = index.bounds(stream);
      const to = Math.min(below, next - 1);
      return to > first ? [{ stream, below: to }] : [];
    });
  }

  async drop(stream: string): Promise<void> {
    checkStream(stream);
    await this.#write(stream, ({ index }) => {
      const { next } = index.bounds(stream);
      return next > 0 ? [{ stream, below: next }] : [];
    });
  }

  async addRecords(added: readonly LogRecord[]): Promise<void> {
    checkRecords(added);
    await this.#write(RECORDS, ({ index }) => added.filter(({ key }) => !index.hasRecord(key)));
  }

  async readRecords(range: RecordRange): Promise<LogRecord[]> {
    checkRange(range);
    return this.#use(({ files, index }) =>
      files.read(async (read) => {
        const records: LogRecord[] = [];
        for (const place of index.records({ ...range, limit: Math.min(range.limit, RECORDS_MAX) }))
          records.push(...((await read(place)) as LogRecord[]));
        return records;
      }),
    );
  }

  async removeRecords(keys: readonly string[]): Promise<void> {
    checkKeys(keys);
    await this.#write(RECORDS, ({ index }) =>
      keys.filter((key) => index.hasRecord(key)).map((key) => ({ key, text: null })),
    );
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const journal = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    await journal?.close();
    this.#unlock();
  }

  #write(subject: string, entries: (journal: EventJournal) => readonly Entry[]): Promise<void> {
    return this.#use((journal) => journal.write(subject, () => entries(journal)));
  }

  async #use<T>(work: (journal: EventJournal) => Promise<T>): Promise<T> {
    const journal = await this.#open();
    try {
      return await work(journal);
    } catch (error) {
      throw this.#described(error);
    }
  }

  #open(): Promise<EventJournal> {
    if (this.#isClosed) throw new UnavailableError(`the event log in ${this.#options.folder} is closed`);
    this.#opened ??= this.#openFolder().catch((error: unknown) => {
      this.#opened = undefined;
      this.#unlock();
      throw error;
    });
    return this.#opened;
  }

  async #openFolder(): Promise<EventJournal> {
    const { folder, exclusive, log, fileBytes = FILE_BYTES } = this.#options;
    try {
      await ensureFolder(this.#lines.files, folder);
      if (exclusive !== false) this.#lock ??= await FolderLock.take(folder);
      const names = this.#lines.files.list(folder);
      const files = new EventFiles(this.#lines, folder);
      const journal = new EventJournal(files, fileBytes, log);
      if (isOfFirstRelease(names)) await convertFirstRelease(this.#lines, journal);
      else if (names.includes(MARK) || files.numbers().length > 0) await journal.load();
      else await journal.begin(1);
      await removeConverted(this.#lines, folder);
      if (!names.includes(MARK)) await markFolder(this.#lines, folder);
      return journal;
    } catch (error) {
      throw openError(error, "event log", folder);
    }
  }

  #unlock(): void {
    this.#lock?.release();
    this.#lock = undefined;
  }

  #described(error: unknown): unknown {
    if (error instanceof DomainError) return error;
    const { folder } = this.#options;
    const noRoom = diskFullError(error, "cannot write to the event log", folder);
    const message = `the event log in ${folder} cannot be used: ${messageOf(error)}`;
    return noRoom ?? new UnavailableError(message, { cause: error, outcome: "unknown" });
  }
}
