import { join } from "node:path";
import { FencedError, InvalidStateError } from "@diskmesh/domain";
import { newerFormat } from "../format.js";
import type { Claim, Leader } from "../storage.js";
import type { LineFile, LineFiles } from "./line-file.js";
import { lineOf } from "./lines.js";
import { MARK, markFolder } from "./mark.js";

/** Formats 1 and 2 are LMDB folders of the first release. */
const FORMAT = 3;
const FORMAT_TEXT = /^diskmesh tablet ([0-9]{1,9})$/;
const NUMBER_DIGITS = 16;
const FILE_NAME = /^(journal|snapshot|end)\.([0-9]{16})$/;

type Kind = "journal" | "snapshot" | "end";

/** A claim as stored in the head of a journal. */
export interface StoredClaim extends Claim, Leader {
  /** Set in the claim of a restore that is not finished. */
  readonly isRestore?: true | undefined;
}

/** The first line of a journal. */
interface Head {
  readonly format: string;
  readonly claim: StoredClaim;
  /** Number and valid length of the previous journal. Absent in a tablet's first journal. */
  readonly previous?: number | undefined;
  readonly end?: number | undefined;
}

/** The journal that this process appends to. */
export interface Journal {
  readonly number: number;
  readonly claim: StoredClaim;
  readonly file: LineFile;
}

/**
 * Files of a tablet in a folder. `journal.N` has a head and one line per commit. `snapshot.N` contains all documents as
 * of a moment after the start of `journal.N`; `journal.N` and later journals are read on top of it. `end.N` contains
 * the final length of `journal.N`.
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
      const last = own === undefined ? await this.#lastBefore(number) : await this.#ownBefore(number, own);
      const claim = claimAfter(last?.claim, number);
      const head: Head = { format: `diskmesh tablet ${FORMAT}`, claim, previous: last?.number, end: last?.end };
      await file.append(lineOf(head));
      await this.lines.files.syncFolder(this.folder);
      if (last === undefined) await markFolder(this.lines, this.folder);
      return { number, claim, file };
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
  async headOf(number: number, end?: number): Promise<Head | undefined> {
    const path = this.path("journal", number);
    let text: string | undefined;
    const onLine = (json: Buffer): false => {
      text = json.toString();
      return false;
    };
    await this.lines.read(path, onLine, { upTo: end === undefined ? undefined : { end: end } });
    if (text === undefined) return undefined;
    const head = JSON.parse(text) as Head;
    const format = FORMAT_TEXT.exec(String(head.format))?.[1];
    if (format === undefined) throw new InvalidStateError(`${path} is not a journal of a tablet; ${this.lines.cure}`);
    if (Number(format) > FORMAT) throw new InvalidStateError(newerFormat(`the folder ${this.folder}`, format));
    return head;
  }

  /** Stores the final length of a journal, so that a later truncation is distinguishable from a crash. */
  async noteEnd({ number, file }: Journal): Promise<void> {
    await this.lines.write(this.folder, nameOf("end", number), lineOf({ end: file.sizeBytes }));
  }

  /** Returns the length of a closed journal; undefined for others. */
  async notedEnd(number: number): Promise<number | undefined> {
    if (!this.numbers("end").includes(number)) return undefined;
    let noted: number | undefined;
    await this.lines.read(this.path("end", number), (json) => {
      noted = (JSON.parse(json.toString()) as { end: number }).end;
    });
    return noted;
  }

  /** Writes `snapshot.N` from the pieces; resolves with its size. */
  writeSnapshot(number: number, pieces: AsyncIterable<Buffer>): Promise<number> {
    return this.lines.replace(this.folder, nameOf("snapshot", number), pieces);
  }

  /** Removes the files that `snapshot.N` replaces, and unfinished snapshots. */
  async removeBelow(number: number): Promise<void> {
    for (const name of this.lines.files.list(this.folder)) {
      const [, , of = Number.POSITIVE_INFINITY] = FILE_NAME.exec(name) ?? [];
      if (Number(of) < number || name.endsWith(".draft")) await this.lines.files.remove(join(this.folder, name));
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

  async #ownBefore(number: number, own: Journal): Promise<{ number: number; end: number; claim: StoredClaim }> {
    if (this.numbers("journal").some((other) => other > own.number && other < number)) await this.refuseFenced(own);
    return { number: own.number, end: own.file.sizeBytes, claim: own.claim };
  }

  /** Returns the last journal below a number. Skips journals without a head, which are incomplete claims. */
  async #lastBefore(below: number): Promise<{ number: number; end: number; claim: StoredClaim } | undefined> {
    const ends = this.numbers("end");
    for (const number of this.numbers("journal").reverse()) {
      if (number >= below) continue;
      const isClosed = ends.includes(number);
      if (!isClosed && (await this.headOf(number)) === undefined) continue;
      const noted = Math.max(number, ...ends, ...this.numbers("snapshot"));
      if (noted > number) throw new InvalidStateError(`${this.path("journal", noted)} is missing: ${this.lines.cure}`);
      const end = await this.#endOf(number);
      const { claim } = (await this.headOf(number, end)) as Head;
      return { number, end, claim };
    }
    if (this.numbers("snapshot").length > 0 || this.lines.files.list(this.folder).includes(MARK))
      throw new InvalidStateError(
        `the folder ${this.folder} had a tablet, but its journals are missing: ${this.lines.cure}; to start with an empty tablet, remove the folder`,
      );
    return undefined;
  }

  /**
   * Returns the length of a journal after syncing it, because a killed process leaves lines that were written but not
   * synced.
   */
  async #endOf(number: number): Promise<number> {
    const noted = await this.notedEnd(number);
    const { end } = await this.lines.read(this.path("journal", number), () => {}, {
      upTo: noted === undefined ? undefined : { end: noted },
    });
    const file = await this.lines.files.open(this.path("journal", number), "a");
    await file.datasync().finally(() => file.close());
    return end;
  }
}

function nameOf(kind: Kind, number: number): string {
  return `${kind}.${String(number).padStart(NUMBER_DIGITS, "0")}`;
}
