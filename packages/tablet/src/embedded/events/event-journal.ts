import { type Logger, messageOf } from "@diskmesh/domain";
import type { LineFile, LinePlace } from "../line-file.js";
import type { EventFiles } from "./event-files.js";
import { type Entry, EventIndex } from "./event-index.js";

/** Entries to append. They are determined by `entries` once all earlier ones of the same subject are durable. */
interface Write {
  readonly subject: string;
  readonly entries: () => readonly Entry[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * The journal of an event log. Entries are appended to its last file. When a file begins, what is needed of the oldest
 * files is copied to it if that frees enough room, and these files are removed.
 */
export class EventJournal {
  readonly index = new EventIndex();
  /** Sizes of the files, ascending by number. */
  #sizes = new Map<number, number>();
  #number = 0;
  #file: LineFile | undefined;
  /** Size of the last file with which the next one begins. */
  #fullBytes = 0;
  #waiting: Write[] = [];
  #writing: Promise<void> | undefined;

  /** `fileBytes` are appended to a file until the next one begins. */
  constructor(
    readonly files: EventFiles,
    private readonly fileBytes: number,
    private readonly log: Logger | undefined,
  ) {}

  async load(): Promise<void> {
    const { sizes, file } = await this.files.load((entry, number, place) => this.index.add(entry, number, place));
    this.#sizes = sizes;
    this.#use(Math.max(...sizes.keys()), file);
  }

  /** Begins a file with copies of what is needed of the files that it replaces. */
  async begin(number: number): Promise<void> {
    const former = this.#file;
    const oldest = this.#oldestToKeep(number);
    const copies: (readonly [Entry, LinePlace])[] = [];
    const file = await this.files.create({ number, oldest, former }, (append) =>
      this.#copyBelow(oldest, async (entries) => {
        for (const [i, place] of (await append(entries)).entries()) copies.push([entries[i] as Entry, place]);
      }),
    );
    this.index.forgetBelow(oldest);
    for (const [entry, place] of copies) this.index.add(entry, number, place);
    this.#use(number, file);
    await former?.close();
    for (const each of [...this.#sizes.keys()].filter((each) => each < oldest)) {
      this.#sizes.delete(each);
      await this.files.remove(each);
    }
  }

  /** Resolves when the entries are durable. Writes of one turn, and those that wait for a sync, share the next sync. */
  write(subject: string, entries: Write["entries"]): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ subject, entries, resolve, reject });
      this.#writing ??= this.#writeAll();
    });
  }

  /** Resolves when all writes have ended. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#file?.close();
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      await new Promise(setImmediate);
      await this.#beginWhenDue();
      const group = new Map<string, Write>();
      const isLater = (write: Write): boolean => group.has(write.subject) || !group.set(write.subject, write);
      this.#waiting = this.#waiting.filter(isLater);
      await this.#writeTogether([...group.values()]);
    }
    this.#writing = undefined;
  }

  /** Repeats a failed write of several callers one by one, because perhaps only one of them finds no room. */
  async #writeTogether(group: readonly Write[]): Promise<void> {
    try {
      await this.#append(group.flatMap(({ entries }) => entries()));
      for (const { resolve } of group) resolve();
    } catch (error) {
      if (group.length === 1) group[0]?.reject(error);
      else for (const write of group) await this.#writeTogether([write]);
    }
  }

  async #append(entries: readonly Entry[]): Promise<void> {
    if (entries.length === 0) return;
    const file = this.#file as LineFile;
    const places = await file.appendChained(entries);
    for (const [i, place] of places.entries()) this.index.add(entries[i] as Entry, this.#number, place);
    this.#sizes.set(this.#number, file.sizeBytes);
  }

  async #beginWhenDue(): Promise<void> {
    const sizeBytes = this.#sizes.get(this.#number) ?? 0;
    const [oldest = this.#number] = this.#sizes.keys();
    if (sizeBytes < this.#fullBytes && (oldest === this.#number || this.index.usedBytes(oldest) > 0)) return;
    await this.begin(this.#number + 1).catch((error: unknown) => {
      this.#fullBytes = sizeBytes + this.fileBytes;
      this.log?.warn(
        { folder: this.files.folder, error: messageOf(error) },
        "event log clean-up failed, retried later",
      );
    });
  }

  #use(number: number, file: LineFile): void {
    this.#number = number;
    this.#file = file;
    this.#sizes.set(number, file.sizeBytes);
    this.#fullBytes = file.sizeBytes + this.fileBytes;
  }

  /**
   * Returns the number of the first file to keep. Files of which nothing is needed go, and, while more than a third of
   * the log is unneeded, also others as long as little must be copied.
   */
  #oldestToKeep(number: number): number {
    let copiedBytes = 0;
    let neededBytes = 0;
    let unneededBytes = 0;
    for (const [each, sizeBytes] of this.#sizes) {
      neededBytes += this.index.usedBytes(each);
      unneededBytes += sizeBytes - this.index.usedBytes(each);
    }
    for (const [each, sizeBytes] of this.#sizes) {
      const used = this.index.usedBytes(each);
      const isWorthwhile = unneededBytes > Math.max(this.fileBytes, neededBytes / 2) && copiedBytes < this.fileBytes;
      if (used > 0 && !isWorthwhile) return each;
      copiedBytes += used;
      unneededBytes -= sizeBytes - used;
    }
    return number;
  }

  async #copyBelow(oldest: number, append: (entries: readonly Entry[]) => Promise<void>): Promise<void> {
    await this.files.read(async (read) => {
      for (const range of this.index.rangesBelow(oldest)) {
        const entries = (await read(range)).flatMap((entry) => this.index.neededOf(entry));
        if (entries.length > 0) await append(entries);
      }
    });
  }
}
