import { join } from "node:path";
import { FencedError, InvalidStateError } from "@diskmesh/domain";
import { newerFormat } from "../storage/format.js";
import type { Claim, Leader } from "../storage/storage.js";
import { collecting, refuseDamage } from "./damage.js";
import type { LineFile, LineFiles, Place, ReadOptions } from "./line-file.js";
import { lineOf } from "./lines.js";
import { MARK, markFolder } from "./mark.js";

/** Format 3 is that of 0.1.0, whose lines are not chained. */
const FORMAT = 4;
const UNCHAINED_FORMAT = 3;
const FORMAT_TEXT = /^diskmesh tablet ([0-9]{1,9})$/;
const NUMBER_DIGITS = 16;
const FILE_NAME = /^(journal|snapshot|end)\.([0-9]{16})$/;

type Kind = "journal" | "snapshot" | "end";

/** A claim as stored in the head of a journal. */
export interface StoredClaim extends Claim, Leader {
  /** Set in the claim of a restore that is not finished. */
  readonly isRestore?: true | undefined;
}

/** The first line of a journal. Format 3 has no `kind`, `number` and `sum`. */
interface Head {
  readonly kind: "journal";
  readonly number: number;
  readonly format: string;
  readonly claim: StoredClaim;
  /** Number of the previous journal, and the place up to which it counts. Absent in a tablet's first journal. */
  readonly previous?: number | undefined;
  readonly end?: number | undefined;
  readonly sum?: number | undefined;
}

/** A head as read. */
export interface ReadHead extends Head {
  readonly isChained: boolean;
  /** Checksum of the first line, which identifies the journal. */
  readonly headSum: number;
}

/** The journal that this process appends to. */
export interface Journal {
  readonly number: number;
  readonly claim: StoredClaim;
  readonly file: LineFile;
  readonly headSum: number;
}

/** Position up to which a journal counts; undefined when nothing states it. */
export type UpTo = ReadOptions["upTo"];

/** The last journal of a folder. Place and claim are absent only when it is damaged. */
export interface LastJournal {
  readonly number: number;
  readonly upTo: UpTo;
  readonly claim: StoredClaim | undefined;
}

/**
 * Files of a tablet in a folder, with chained lines. `journal.N` has a head and one line per commit. `snapshot.N`
 * contains all documents as of a moment after the start of `journal.N`; `journal.N` and later journals are read on top
 * of it. `end.N` contains the final length and checksum of `journal.N`.
 */
export class JournalFolder {
  constructor(
    readonly lines: LineFiles,
    readonly folder: string,
  ) {}

  path(kind: Kind, number: number): string {
    return join(this.folder, nameOf(kind, number));
  }

  /** Returns the numbers of all files of a kind, ascending. */
  numbers(kind: Kind): number[] {
    const numbers: number[] = [];
    for (const name of this.lines.files.list(this.folder)) {
      const [, found, number] = FILE_NAME.exec(name) ?? [];
      if (found === kind) numbers.push(Number(number));
    }
    return numbers.sort((a, b) => a - b);
  }

  /** Throws FencedError when a later journal exists, because the process that created it has claimed the tablet. */
  async refuseFenced({ number, claim }: Journal): Promise<void> {
    const own = nameOf("journal", number);
    if (!this.lines.files.list(this.folder).some((name) => name > own && name.startsWith("journal."))) return;
    const last = this.numbers("journal").at(-1) ?? number;
    const head = await this.headOf(last).catch(() => undefined);
    throw new FencedError(
      `the tablet in ${this.folder} has been claimed by ${head?.claim.address ?? "another process"} with generation ${last}; this process has generation ${claim.generation}`,
    );
  }

  /**
   * Creates the next journal. Its number is at least `atLeast` and at least its claim's generation. `claimAfter` makes
   * the new claim from the previous journal's claim and the new number. `own` is the journal that this process appended
   * to so far.
   */
  async begin(
    atLeast: number,
    claimAfter: (last: StoredClaim | undefined, number: number) => StoredClaim,
    own?: Journal,
  ): Promise<Journal> {
    const { number, file } = await this.#create(atLeast);
    try {
      // Reads the previous journal only after the new one exists, because from then on no commit to the previous
      // journal is acknowledged.
      const last = own === undefined ? await this.#syncedBefore(number) : await this.#ownBefore(number, own);
      const claim = claimAfter(last?.claim, number);
      const previous = { previous: last?.number, end: last?.upTo?.end, sum: last?.upTo?.sum };
      const head: Head = { kind: "journal", number, format: `diskmesh tablet ${FORMAT}`, claim, ...previous };
      await file.appendChained([head]);
      await this.lines.files.syncFolder(this.folder);
      if (last === undefined) await markFolder(this.lines, this.folder);
      return { number, claim, file, headSum: file.sum };
    } catch (error) {
      await file.close();
      await this.#undoBegin(file.path, own);
      throw error;
    }
  }

  /**
   * Removes a journal, which must be without commits. Keeps a tablet's first journal, because it proves that the tablet
   * exists.
   */
  async removeUnused({ number }: Journal): Promise<void> {
    if ((await this.headOf(number))?.previous === undefined) return;
    await this.lines.files.remove(this.path("journal", number));
    await this.lines.files.syncFolder(this.folder);
  }

  /** Returns the head of a journal; undefined when its first line is incomplete. */
  async headOf(number: number, upTo?: UpTo): Promise<ReadHead | undefined> {
    const path = this.path("journal", number);
    let text: string | undefined;
    const onLine = (json: Buffer): false => {
      text = json.toString();
      return false;
    };
    const { sum, isChained } = await this.lines.read(path, onLine, { id: { kind: "journal", number }, upTo });
    if (text === undefined) return undefined;
    const head = JSON.parse(text) as Head;
    const format = FORMAT_TEXT.exec(String(head.format))?.[1];
    if (format === undefined) throw new InvalidStateError(`${path} is not a journal of a tablet; ${this.lines.cure}`);
    if (Number(format) > FORMAT) throw new InvalidStateError(newerFormat(`the folder ${this.folder}`, format, FORMAT));
    if (Number(format) > UNCHAINED_FORMAT === isChained) return { ...head, isChained, headSum: sum };
    throw this.lines.damaged(path, 0, "its first line lacks the journal's number");
  }

  /** Stores the final length of a journal, so that a later truncation is distinguishable from a crash. */
  async noteEnd({ number, file: { sizeBytes: end, sum } }: Journal): Promise<void> {
    await this.lines.write(this.folder, nameOf("end", number), lineOf({ kind: "end", number, end, sum }));
  }

  /**
   * Returns the last journal below a number after reading it; undefined for a new folder. Skips journals without a
   * head, which are incomplete claims.
   */
  async lastJournal(below = Number.POSITIVE_INFINITY, onDamage = refuseDamage): Promise<LastJournal | undefined> {
    const ends = this.numbers("end");
    const noted = Math.max(0, ...ends, ...this.numbers("snapshot"));
    for (const number of this.numbers("journal").reverse()) {
      if (number >= below) continue;
      const head = await collecting(onDamage, () => this.headOf(number));
      if (head === undefined && !ends.includes(number)) continue;
      if (noted > number) onDamage(this.#missing(noted));
      const upTo = await collecting(onDamage, () => this.#endOf(number, head));
      return { number, upTo, claim: head?.claim };
    }
    if (noted > 0 || this.lines.files.list(this.folder).includes(MARK))
      onDamage(
        new InvalidStateError(
          `the folder ${this.folder} had a tablet, but its journals are missing: ${this.lines.cure}; to start with an empty tablet, remove the folder`,
        ),
      );
    return undefined;
  }

  /** Writes `snapshot.N` from the pieces; resolves with its size. */
  writeSnapshot(number: number, pieces: AsyncIterable<Buffer>): Promise<number> {
    return this.lines.replace(this.folder, nameOf("snapshot", number), pieces);
  }

  /**
   * Removes the files that `snapshot.N` replaces, and unfinished snapshots. Keeps journals from `historyFrom` on, which
   * only the history of changes reads.
   */
  async removeBelow(number: number, historyFrom = number): Promise<void> {
    for (const name of this.lines.files.list(this.folder)) {
      const [, kind, of = Number.POSITIVE_INFINITY] = FILE_NAME.exec(name) ?? [];
      const isReplaced = Number(of) < (kind === "snapshot" ? number : Math.min(number, historyFrom));
      if (isReplaced || name.endsWith(".draft")) await this.lines.files.remove(join(this.folder, name));
    }
  }

  async #create(atLeast: number): Promise<{ number: number; file: LineFile }> {
    for (let number = Math.max(atLeast, (this.numbers("journal").at(-1) ?? 0) + 1); ; number++) {
      try {
        return { number, file: await this.lines.create(this.path("journal", number), "ax") };
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
      }
    }
  }

  /**
   * Removes a journal whose creation failed. If the removal fails, the new journal may exist after a crash. Its head
   * fixes the length of this process's journal, and lines beyond that length would be lost. So this process refuses
   * further appends.
   */
  async #undoBegin(path: string, own: Journal | undefined): Promise<void> {
    try {
      await this.lines.files.remove(path);
      await this.lines.files.syncFolder(this.folder);
    } catch (error) {
      own?.file.refuseAppends(error);
    }
  }

  async #ownBefore(number: number, { number: previous, file, claim, ...own }: Journal): Promise<LastJournal> {
    if (this.numbers("journal").some((other) => other > previous && other < number))
      await this.refuseFenced({ number: previous, file, claim, ...own });
    return { number: previous, upTo: { end: file.sizeBytes, sum: file.sum }, claim };
  }

  /** Returns the last journal after syncing it, because a killed process leaves lines that were not synced. */
  async #syncedBefore(below: number): Promise<LastJournal | undefined> {
    const last = await this.lastJournal(below);
    if (last === undefined) return undefined;
    const file = await this.lines.files.open(this.path("journal", last.number), "a");
    await file.datasync().finally(() => file.close());
    return last;
  }

  /** Reads a whole journal; returns its end, which is the noted one if it was closed. */
  async #endOf(number: number, head: ReadHead | undefined): Promise<Place> {
    const noted = await this.#notedEnd(number);
    const path = this.path("journal", number);
    if (head === undefined) throw this.lines.damaged(path, 0, "the file had more bytes before");
    if (head.isChained && noted !== undefined && noted.sum === undefined)
      throw this.lines.damaged(this.path("end", number), 0, "it is not the end of this journal");
    return this.lines.read(path, () => {}, { id: { kind: "journal", number }, upTo: noted });
  }

  /** Returns the end of a closed journal; undefined for others. */
  async #notedEnd(number: number): Promise<UpTo> {
    if (!this.numbers("end").includes(number)) return undefined;
    let noted: UpTo;
    const onLine = (json: Buffer): void => {
      noted = JSON.parse(json.toString()) as Place;
    };
    await this.lines.read(this.path("end", number), onLine, { id: { kind: "end", number } });
    return noted;
  }

  #missing(number: number): InvalidStateError {
    return new InvalidStateError(`${this.path("journal", number)} is missing: ${this.lines.cure}`);
  }
}

function nameOf(kind: Kind, number: number): string {
  return `${kind}.${String(number).padStart(NUMBER_DIGITS, "0")}`;
}
