import { join } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import { newerFormat } from "../../storage/format.js";
import type { OpenFile } from "../files.js";
import type { LineFile, LineFiles, LinePlace, Place } from "../line-file.js";
import { sumOf } from "../lines.js";
import type { Entry, Range } from "./event-index.js";

/** Format 3 is that of the first release: a file for each stream, and one for records. */
const FORMAT = 4;
const FORMAT_TEXT = /^diskmesh event log ([0-9]{1,9})$/;
const NUMBER_DIGITS = 16;
const FILE_NAME = /^events\.([0-9]{16})$/;
const NEWLINE = 10;
/** Number of bytes to read at once. Ranges that a reader wants are often close to each other. */
const READ_BYTES = 2 ** 16;

/** The first line of a file. */
interface Head {
  readonly kind: "events";
  readonly number: number;
  readonly format: string;
  /** Number of the oldest file that counts. The next lines are copies of what was kept of older ones. */
  readonly oldest: number;
  /** Checksum of the last line of the previous file; 0 in the first file. */
  readonly previous: number;
}

export interface NewFile {
  readonly number: number;
  readonly oldest: number;
  /** The previous file. Nothing more may be appended to it once the new one exists. */
  readonly former: LineFile | undefined;
}

/** Called with each entry and its place. */
export type OnEntry = (entry: Entry, file: number, place: LinePlace) => void;

/** Returns the entries in a range of lines. */
export type ReadEntries = (range: Range) => Promise<Entry[]>;

/** The files `events.N` of an event log: a head, then one line per entry, with chained checksums. */
export class EventFiles {
  readonly #reading = new Set<Promise<unknown>>();

  constructor(
    private readonly lines: LineFiles,
    readonly folder: string,
  ) {}

  /** Returns the numbers of the files, ascending. */
  numbers(): number[] {
    return this.lines.files
      .list(this.folder)
      .flatMap((name) => FILE_NAME.exec(name)?.[1] ?? [])
      .map(Number)
      .sort((a, b) => a - b);
  }

  /**
   * Reads all files that count, and removes others. Returns their sizes, ascending by number, and the last one for
   * appending. Only the last one may be torn.
   */
  async load(onEntry: OnEntry): Promise<{ readonly sizes: Map<number, number>; readonly file: LineFile }> {
    const numbers = this.numbers();
    const last = numbers.at(-1) ?? 1;
    const { oldest } = await this.#headOf(last);
    const sizes = new Map<number, number>();
    let end: Place = { end: 0, sum: 0 };
    for (let number = oldest; number <= last; number++) {
      const onLine = (json: Buffer, place: LinePlace): void => {
        const value: unknown = JSON.parse(json.toString());
        if (place.at > 0) onEntry(value as Entry, number, place);
        else if (number > oldest && (value as Head).previous !== end.sum)
          throw this.lines.damaged(
            this.#path(number - 1),
            end.end,
            "its end is not the one behind which the next began",
          );
      };
      end = await this.lines.read(this.#path(number), onLine, { id: { kind: "events", number } });
      sizes.set(number, end.end);
    }
    // A killed process may have created the last file without syncing its name.
    await this.lines.files.syncFolder(this.folder);
    for (const number of numbers) if (number < oldest) await this.remove(number);
    return { sizes, file: await this.lines.reopen(this.#path(last), end) };
  }

  /** Creates a file with the entries that `write` appends. After a crash either the complete file or none exists. */
  async create(
    { number, oldest, former }: NewFile,
    write: (append: (entries: readonly Entry[]) => Promise<LinePlace[]>) => Promise<void>,
  ): Promise<LineFile> {
    const path = this.#path(number);
    const draft = await this.lines.create(`${path}.draft`, "w");
    try {
      const format = `diskmesh event log ${FORMAT}`;
      const head: Head = { kind: "events", number, format, oldest, previous: former?.sum ?? 0 };
      await draft.appendChained([head], { sync: false });
      await write((entries) => draft.appendChained(entries, { sync: false }));
      await draft.append(Buffer.alloc(0));
      return await this.#named(draft, path).catch((error: unknown) => {
        // Only the next start can tell whether the new file exists.
        former?.refuseAppends(error);
        throw error;
      });
    } finally {
      await draft.close();
      await this.lines.files.remove(draft.path);
    }
  }

  /** Runs a reader. The files that it reads are kept until it has ended. */
  async read<T>(work: (read: ReadEntries) => Promise<T>): Promise<T> {
    let opened: { readonly number: number; readonly file: OpenFile } | undefined;
    let [from, bytes] = [0, Buffer.alloc(0)];
    const read: ReadEntries = async ({ file: number, at, end, seed }) => {
      if (opened?.number !== number) {
        await opened?.file.close();
        opened = undefined;
        opened = { number, file: await this.lines.files.open(this.#path(number), "r") };
        bytes = Buffer.alloc(0);
      }
      if (at < from || end > from + bytes.length) {
        from = at;
        bytes = Buffer.alloc(Math.max(end - at, READ_BYTES));
        await opened.file.read(bytes, 0, bytes.length, at);
      }
      return this.#entriesIn(bytes.subarray(at - from, end - from), { file: number, at, seed });
    };
    const reading = work(read).finally(() => opened?.file.close());
    this.#reading.add(reading);
    return reading.finally(() => this.#reading.delete(reading));
  }

  /** Removes a file after the present readers have ended. */
  async remove(number: number): Promise<void> {
    await Promise.allSettled(this.#reading);
    await this.lines.files.remove(this.#path(number));
  }

  async #named(draft: LineFile, path: string): Promise<LineFile> {
    await this.lines.files.rename(draft.path, path);
    await this.lines.files.syncFolder(this.folder);
    return this.lines.reopen(path, { end: draft.sizeBytes, sum: draft.sum });
  }

  #path(number: number): string {
    return join(this.folder, `events.${String(number).padStart(NUMBER_DIGITS, "0")}`);
  }

  async #headOf(number: number): Promise<Head> {
    const path = this.#path(number);
    let head: Partial<Head> = {};
    const onLine = (json: Buffer): false => {
      head = JSON.parse(json.toString()) as Head;
      return false;
    };
    const { isChained } = await this.lines.read(path, onLine, { id: { kind: "events", number } });
    const format = FORMAT_TEXT.exec(String(head.format))?.[1];
    if (!isChained || format === undefined)
      throw new InvalidStateError(`${path} is not a file of an event log; ${this.lines.cure}`);
    if (Number(format) > FORMAT) throw new InvalidStateError(newerFormat(`the folder ${this.folder}`, format, FORMAT));
    return head as Head;
  }

  #entriesIn(bytes: Buffer, { file, at, seed }: Omit<Range, "end">): Entry[] {
    const entries: Entry[] = [];
    let [from, sum] = [0, seed];
    for (let to = bytes.indexOf(NEWLINE); to >= 0; to = bytes.indexOf(NEWLINE, from)) {
      const line = bytes.subarray(from, to);
      const json = this.lines.jsonOf(this.#path(file), line, { at: at + from, seed: sum });
      entries.push(JSON.parse(json.toString()) as Entry);
      sum = sumOf(line);
      from = to + 1;
    }
    if (from < bytes.length) throw this.lines.damaged(this.#path(file), at + from, "the line there is cut off");
    return entries;
  }
}
