import { DiskFullError, messageOf } from "@diskmesh/domain";
import type { StoredDocument } from "../documents/schema.js";
import type { TabletClock } from "../storage/clock.js";
import type { Snapshot } from "../storage/storage.js";
import type { Journal, JournalFolder } from "./journal-folder.js";
import { lineOf, sumOf } from "./lines.js";
import type { StoredSizes } from "./load-journals.js";
import type { SnapshotHead } from "./snapshot-file.js";

/** Minimum size of the journals for a snapshot. A start reads at most about twice the snapshot's size plus this. */
const JOURNALS_BYTES_MIN = 16 * 2 ** 20;
/** Maximum number of journals before a snapshot is made regardless of their size. Each start creates a journal. */
const JOURNALS_MAX = 50;
const RETRY_MS = 60_000;
/** Bytes that one turn of the event loop encodes. A larger piece would delay the commits that wait for that turn. */
const PIECE_BYTES = 2 ** 14;

export interface SnapshotOptions {
  readonly folder: JournalFolder;
  readonly clock: TabletClock;
  readonly snapshot: Snapshot;
  /** Returns the journal that this process appends to. */
  readonly journal: () => Journal;
  /** Starts the next journal between two commits. */
  readonly beginJournal: () => Promise<Journal>;
  readonly onTrouble: (trouble: string | undefined) => void;
  /** Overrides JOURNALS_BYTES_MIN in tests. */
  readonly journalsBytesMin?: number | undefined;
}

/** Makes a snapshot, concurrently with commits, when the journals since the last snapshot are larger than it. */
export class Snapshots {
  readonly #options: SnapshotOptions;
  #sizes: StoredSizes;
  #running: Promise<void> | undefined;
  #hasFailed = false;
  /** True from the notice of damage until a snapshot has replaced the damaged files. */
  #isDamaged = false;
  #isEnded = false;
  #retryAtMs = 0;

  constructor(options: SnapshotOptions, sizes: StoredSizes) {
    this.#options = options;
    this.#sizes = sizes;
  }

  onCommit(sizeBytes: number): void {
    this.#sizes = { ...this.#sizes, journalsBytes: this.#sizes.journalsBytes + sizeBytes };
    this.makeWhenDue();
  }

  makeWhenDue(): void {
    const { clock, journalsBytesMin = JOURNALS_BYTES_MIN } = this.#options;
    const { journals, journalsBytes, snapshotBytes } = this.#sizes;
    const isDue =
      this.#hasFailed || journalsBytes > Math.max(journalsBytesMin, snapshotBytes) || journals > JOURNALS_MAX;
    if (isDue && clock.monotonicMs() >= this.#retryAtMs) this.#begin();
  }

  /** Makes a snapshot because the files are damaged. None of them stays, not even for the history of changes. */
  replaceDamaged(): void {
    this.#isDamaged = true;
    this.#begin();
  }

  #begin(): void {
    if (this.#running !== undefined || this.#isEnded) return;
    this.#running = this.#make().finally(() => {
      this.#running = undefined;
    });
  }

  /** Aborts a running snapshot and waits for its end. */
  async end(): Promise<void> {
    this.#isEnded = true;
    await this.#running;
  }

  async #make(): Promise<void> {
    const { clock, folder, onTrouble } = this.#options;
    try {
      await this.#write();
      if (this.#hasFailed) onTrouble(undefined);
      this.#hasFailed = false;
    } catch (error) {
      if (this.#isEnded) return;
      this.#hasFailed = true;
      this.#retryAtMs = clock.monotonicMs() + RETRY_MS;
      onTrouble(
        `snapshot of the tablet in ${folder.folder} failed, so its journals grow: ${messageOf(error)}; retried in ${RETRY_MS / 1_000} s`,
      );
    }
  }

  /**
   * Writes a snapshot. `journal.N` begins before the documents for `snapshot.N` are taken, and only durable documents
   * are taken. So each commit is in the snapshot, in `journal.N` or a later journal, or in both. A load prefers the
   * journals.
   */
  async #write(): Promise<void> {
    const { folder, snapshot, beginJournal, journal } = this.#options;
    await this.#refuseWithoutRoom();
    const historyFrom = this.#isDamaged ? undefined : await this.#historyFrom();
    const before = this.#sizes;
    const { number, headSum } = await beginJournal();
    const documents = await snapshot();
    const { number: last, file } = journal();
    const head: SnapshotHead = {
      kind: "snapshot",
      number,
      journalSum: headSum,
      until: { number: last, end: file.sizeBytes },
      historyFrom,
    };
    const snapshotBytes = await folder.writeSnapshot(number, this.#pieces(head, documents));
    this.#sizes = {
      journals: 1,
      journalsBytes: this.#sizes.journalsBytes - before.journalsBytes,
      snapshotBytes,
    };
    await folder.removeBelow(number, historyFrom);
    if (historyFrom === undefined) this.#isDamaged = false;
  }

  /** Returns the journal with which the former snapshot began; undefined when it is from 0.1.0 or cannot be read. */
  async #historyFrom(): Promise<number | undefined> {
    const { folder } = this.#options;
    const from = folder.numbers("snapshot").at(-1) ?? folder.numbers("journal")[0];
    const head = from === undefined ? undefined : await folder.headOf(from).catch(() => undefined);
    return head?.isChained === true ? from : undefined;
  }

  /**
   * Throws when a snapshot could fill the disk and leave no space for commits. Journals that are kept only for history
   * leave the disk first.
   */
  async #refuseWithoutRoom(): Promise<void> {
    const { folder } = this.#options;
    const neededBytes = this.#sizes.journalsBytes + this.#sizes.snapshotBytes;
    const free = () => folder.lines.files.freeBytes(folder.folder);
    if ((await free()) >= neededBytes) return;
    await folder.removeBelow(folder.numbers("snapshot").at(-1) ?? 0);
    const freeBytes = await free();
    if (freeBytes >= neededBytes) return;
    throw new DiskFullError(
      `the snapshot may need ${neededBytes} bytes, but the disk of ${folder.folder} has ${freeBytes} left: free space there`,
    );
  }

  /** Yields pieces of the snapshot; commits run between them. The last line holds the number of documents. */
  async *#pieces(head: SnapshotHead, documents: Iterable<StoredDocument>): AsyncGenerator<Buffer> {
    let line = lineOf(head);
    let lines: Buffer[] = [line];
    let sizeBytes = 0;
    let count = 0;
    for (const { table, key, version, document } of documents) {
      count++;
      line = lineOf([table, key, version, document], sumOf(line));
      lines.push(line);
      sizeBytes += line.length;
      if (sizeBytes < PIECE_BYTES) continue;
      if (this.#isEnded) throw new Error("the storage is closed");
      yield Buffer.concat(lines);
      lines = [];
      sizeBytes = 0;
    }
    yield Buffer.concat([...lines, lineOf({ documents: count }, sumOf(line))]);
  }
}
