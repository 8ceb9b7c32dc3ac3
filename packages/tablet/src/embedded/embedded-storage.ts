import { randomUUID } from "node:crypto";
import { diskFullError, InvalidStateError, ResourceExhaustedError, systemClock } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { refuseRestore, restoredFields } from "../backup/restored-claim.js";
import type { StoredChange } from "../documents/schema.js";
import { addChanges } from "../storage/batch.js";
import type { TabletClock } from "../storage/clock.js";
import { CURE } from "../storage/format.js";
import { OneAtATime } from "../storage/one-at-a-time.js";
import type {
  Claim,
  ClaimOptions,
  KeptCommits,
  Leader,
  OnDocument,
  PastChange,
  PastChangesOf,
  RestoredClaim,
  Snapshot,
  TabletStorage,
} from "../storage/storage.js";
import { keepFilesChecked } from "./file-check.js";
import { type Files, systemFiles } from "./files.js";
import { ensureFolder } from "./folders.js";
import { type Journal, JournalFolder, type StoredClaim } from "./journal-folder.js";
import { LineFiles } from "./line-file.js";
import { loadJournals } from "./load-journals.js";
import { refuseUnexpected, refuseUnexpectedClaim } from "./lost-tablet.js";
import { openError } from "./open-error.js";
import { readPastChanges } from "./past-changes.js";
import { Reserve } from "./reserve.js";
import { RestoreBeside } from "./restore-beside.js";
import { type Row, snapshotHead } from "./snapshot-file.js";
import { Snapshots } from "./snapshots.js";

export interface EmbeddedOptions {
  /** Folder of the tablet; created when missing. It must contain no files of other programs. */
  readonly folder: string;
  /** False in tests: the folder is not locked, so that several claims compete as on a database. */
  readonly exclusive?: boolean;
  readonly files?: Files;
  readonly clock?: TabletClock;
  /**
   * Minimum total size of the journals for a snapshot; they must also exceed the last snapshot's size. Set by tests
   * only.
   */
  readonly journalsBytesMin?: number;
}

/** Opens a tablet in a local folder. Each commit appends a line to a journal and syncs it. */
export function openEmbeddedStorage(options: EmbeddedOptions): TabletStorage {
  return new EmbeddedStorage(options);
}

class EmbeddedStorage implements TabletStorage {
  readonly #options: EmbeddedOptions;
  #folder: JournalFolder;
  #restoring: RestoreBeside | undefined;
  /** Serializes commits and the creation of journals. */
  readonly #turns = new OneAtATime();
  #lock: FolderLock | undefined;
  #journal: Journal | undefined;
  #onEdited: NonNullable<ClaimOptions["onEdited"]> = () => {};
  #check: AbortController | undefined;
  #onTrouble: (trouble: string | undefined) => void = () => {};
  #isLoaded = false;
  /** True during a call of pastChanges: each reads up to all journals. */
  #isReadingPast = false;
  #documents: Snapshot | undefined;
  /** Undefined before the load and during a restore, because the documents of a snapshot come from a running tablet. */
  #snapshots: Snapshots | undefined;

  constructor(options: EmbeddedOptions) {
    this.#options = options;
    this.#folder = new JournalFolder(new LineFiles(options.files ?? systemFiles, "tablet", CURE), options.folder);
  }

  async claim(leader: Leader, { restore, expects, onTrouble, onEdited }: ClaimOptions = {}): Promise<Claim> {
    await this.#snapshots?.end();
    this.#snapshots = undefined;
    this.#onTrouble = onTrouble ?? (() => {});
    this.#onEdited = onEdited ?? (() => {});
    this.#isLoaded = false;
    try {
      const { files } = this.#folder.lines;
      if (restore === undefined) refuseUnexpected(files, this.#options.folder, expects);
      else await this.#beginRestore(restore);
      const { folder } = this.#folder;
      await ensureFolder(files, folder);
      if (this.#options.exclusive !== false) this.#lock ??= await FolderLock.take(folder);
      const restored = restore && restoredFields(restore, this.#restoring?.lastGeneration ?? 0);
      const former = this.#journal;
      const begin = this.#folder.begin.bind(this.#folder, restored?.generation ?? 1, (last, generation) => {
        refuseRestore(last, restore, `the tablet in ${folder}`);
        if (restore === undefined) refuseUnexpectedClaim(last, folder, expects);
        const { tabletId = randomUUID(), incarnation = randomUUID(), parentIncarnations = [] } = last ?? {};
        const claim = { tabletId, incarnation, parentIncarnations, generation };
        return { ...claim, ...restored, generation, writer: leader.writer, address: leader.address };
      });
      this.#journal = await new Reserve(files, folder).use(begin);
      await former?.file.close();
    } catch (error) {
      if (this.#journal === undefined) this.#unlock();
      throw this.#openError(error);
    }
    const { tabletId, incarnation, parentIncarnations, generation } = this.#journal.claim;
    return { tabletId, incarnation, parentIncarnations, generation };
  }

  async #beginRestore({ replace }: RestoredClaim): Promise<void> {
    const { folder, exclusive = true } = this.#options;
    const { lines } = this.#folder;
    this.#restoring = await RestoreBeside.begin({ lines, folder, replace, exclusive });
    this.#folder = new JournalFolder(lines, this.#restoring.folder);
  }

  async load(onDocument: OnDocument, snapshot?: Snapshot): Promise<void> {
    const journal = this.#claimed();
    const upTo = { end: journal.file.sizeBytes, sum: journal.file.sum };
    const sizes = await loadJournals(this.#folder, { number: journal.number, upTo }, onDocument).catch(
      async (error: unknown) => {
        // Removes the journal, because otherwise each start of a store that fails to load would leave one. This process
        // holds the folder's lock, so no other journal can refer to the removed one.
        if (this.#lock !== undefined) await this.#folder.removeUnused(journal).catch(() => {});
        throw this.#openError(error);
      },
    );
    const newest = this.#folder.numbers("snapshot").at(-1);
    if (newest !== undefined)
      await snapshotHead(this.#folder, newest)
        .then((head) => this.#folder.removeBelow(newest, head?.historyFrom))
        .catch((error: unknown) => {
          throw this.#openError(error);
        });
    this.#isLoaded = true;
    this.#documents = snapshot;
    if (snapshot === undefined) return;
    await new Reserve(this.#folder.lines.files, this.#folder.folder).fill();
    const { clock = systemClock, journalsBytesMin } = this.#options;
    this.#snapshots = new Snapshots(
      {
        folder: this.#folder,
        clock,
        snapshot,
        journalsBytesMin,
        journal: () => this.#claimed(),
        beginJournal: () => this.#begin(1, (claim) => claim),
        onTrouble: this.#onTrouble,
      },
      sizes,
    );
  }

  commit(changes: readonly StoredChange[]): Promise<void> {
    return this.#turns.run(async () => {
      const journal = this.#loaded();
      await this.#folder.refuseFenced(journal);
      const byKey = new Map<string, StoredChange>();
      addChanges(byKey, changes);
      const atMs = (this.#options.clock ?? systemClock).nowMs();
      const rows: Row[] = [];
      for (const { table, key, version, document, previous, cause } of byKey.values())
        if (document !== null || previous !== null)
          rows.push(
            cause === undefined ? [table, key, version, document, atMs] : [table, key, version, document, atMs, cause],
          );
      if (rows.length === 0) return;
      const before = journal.file.sizeBytes;
      await journal.file.appendChained([rows]);
      // A concurrent claim may have read the journal before this line was written. The commit must then fail, because
      // the claimant lacks the line.
      await this.#folder.refuseFenced(journal);
      this.#snapshots?.onCommit(journal.file.sizeBytes - before);
    });
  }

  renew(): Promise<void> {
    // Serialized with the creation of journals. Until `#journal` refers to a new journal, `refuseFenced` would take it
    // for another process's claim.
    return this.#turns.run(async () => {
      const journal = this.#claimed();
      await this.#folder.refuseFenced(journal);
      await this.#refuseReplaced(journal);
      this.#snapshots?.makeWhenDue();
    });
  }

  keepChecked(): void {
    const { folder, files = systemFiles, clock = systemClock } = this.#options;
    const onEdited = this.#onEdited;
    this.#check = new AbortController();
    const { signal } = this.#check;
    const onDamage = (text: string): void => {
      onEdited(text, 1);
      this.#snapshots?.replaceDamaged();
    };
    const documents = this.#documents;
    void keepFilesChecked({ folder, files, clock, signal, documents, journal: () => this.#journal, onDamage });
  }

  async pastChanges(of: PastChangesOf, onChange: (change: PastChange) => void): Promise<KeptCommits> {
    const { number, file } = this.#loaded();
    if (this.#isReadingPast)
      throw new ResourceExhaustedError("another call reads the history of changes; try again later");
    this.#isReadingPast = true;
    const last = { number, upTo: { end: file.sizeBytes } };
    return readPastChanges(this.#folder, last, of, onChange).finally(() => {
      this.#isReadingPast = false;
    });
  }

  async claimAbove(generation: number): Promise<number> {
    const { number: above } = await this.#begin(generation + 1, ({ isRestore: _, ...claim }, number) => ({
      ...claim,
      generation: number,
    }));
    if (this.#restoring !== undefined) await this.#finishRestore(this.#restoring);
    return above;
  }

  async #finishRestore(restoring: RestoreBeside): Promise<void> {
    const { folder } = this.#options;
    await restoring.finish().catch((error: unknown) => {
      throw this.#openError(error);
    });
    this.#restoring = undefined;
    this.#folder = new JournalFolder(this.#folder.lines, folder);
  }

  async close(): Promise<void> {
    this.#check?.abort();
    await this.#snapshots?.end();
    this.#snapshots = undefined;
    await this.#turns.run(async () => {
      const journal = this.#journal;
      this.#journal = undefined;
      if (journal === undefined) return;
      // Ignores a failure: without an end file, the next load still reads the whole journal, but cannot detect a later
      // truncation.
      if (this.#isLoaded) await this.#folder.noteEnd(journal).catch(() => {});
      await journal.file.close().catch(() => {});
    });
    await this.#restoring?.abandon();
    this.#restoring = undefined;
    this.#unlock();
  }

  /** Starts the next journal of this claim. */
  #begin(atLeast: number, claimAfter: (claim: StoredClaim, number: number) => StoredClaim): Promise<Journal> {
    return this.#turns.run(async () => {
      const own = this.#loaded();
      await this.#folder.refuseFenced(own);
      this.#journal = await this.#folder
        .begin(atLeast, (_, number) => claimAfter(own.claim, number), own)
        .catch((error: unknown) => {
          throw diskFullError(error, "cannot write to the tablet", this.#options.folder) ?? error;
        });
      await own.file.close();
      return this.#journal;
    });
  }

  /** Throws InvalidStateError when the journal was deleted or replaced, because appended lines would be lost. */
  async #refuseReplaced({ number, file }: Journal): Promise<void> {
    const path = this.#folder.path("journal", number);
    const [own, found] = await Promise.all([file.handle.stat(), this.#inodeAt(path)]);
    if (own.ino === found) return;
    throw new InvalidStateError(
      `${path} was ${found === undefined ? "deleted" : "replaced by another file"} while this process used it: what was written since is lost; ${CURE}`,
    );
  }

  async #inodeAt(path: string): Promise<number | undefined> {
    try {
      const file = await this.#folder.lines.files.open(path, "r");
      return (await file.stat().finally(() => file.close())).ino;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
      throw error;
    }
  }

  #claimed(): Journal {
    if (this.#journal !== undefined) return this.#journal;
    throw new InvalidStateError(
      `the tablet in ${this.#options.folder} is used before it was claimed, or after it was closed`,
    );
  }

  #loaded(): Journal {
    const journal = this.#claimed();
    if (this.#isLoaded) return journal;
    throw new InvalidStateError(`the tablet in ${this.#options.folder} is used before it was loaded`);
  }

  #unlock(): void {
    this.#lock?.release();
    this.#lock = undefined;
  }

  #openError(error: unknown): unknown {
    return openError(error, "tablet", this.#options.folder);
  }
}
