import { dirname } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import type { Files } from "./files.js";
import { ensureFolder, freeReplacedName, hasCode, namesIn, restoringOf } from "./folders.js";
import { JournalFolder } from "./journal-folder.js";
import type { LineFiles } from "./line-file.js";

export interface RestoreBesideOptions {
  readonly lines: LineFiles;
  /** Folder of the tablet. */
  readonly folder: string;
  /** Permits replacing a tablet. */
  readonly replace: boolean;
  /** False in tests: folders are not locked. */
  readonly exclusive: boolean;
}

/**
 * A restore into `<folder>.restoring`. The complete new tablet then takes the place of the old one in one step, and the
 * old one is kept as `<folder>.replaced-N`. Until then the old tablet stays in its place, locked.
 */
export class RestoreBeside {
  readonly #files: Files;
  readonly #options: RestoreBesideOptions;
  #lock: FolderLock | undefined;
  /** False once the restored tablet may be in its place. */
  #isBeside = true;

  private constructor(options: RestoreBesideOptions) {
    this.#files = options.lines.files;
    this.#options = options;
  }

  /** Throws InvalidStateError for a tablet that may not be replaced, and UnavailableError for one in use. */
  static async begin(options: RestoreBesideOptions): Promise<RestoreBeside> {
    const restore = new RestoreBeside(options);
    try {
      await restore.#begin();
      return restore;
    } catch (error) {
      restore.#lock?.release();
      throw error;
    }
  }

  /** Folder in which the new tablet is built. */
  get folder(): string {
    return restoringOf(this.#options.folder);
  }

  /** Number that is at least as high as all generations of the tablet to be replaced; 0 when there is none. */
  get lastGeneration(): number {
    const { lines, folder } = this.#options;
    if (namesIn(this.#files, folder) === undefined) return 0;
    // A journal's number is at least the generation of its claim.
    return new JournalFolder(lines, folder).numbers("journal").at(-1) ?? 0;
  }

  /** Puts the new tablet, which must be durable, in its place, and the old one aside. */
  async finish(): Promise<void> {
    const { folder } = this.#options;
    this.#isBeside = false;
    if (namesIn(this.#files, folder) === undefined) await this.#move(this.folder, folder);
    else await this.#exchange();
    this.#lock?.release();
  }

  /** Removes the unfinished tablet; without effect once `finish` was called. */
  async abandon(): Promise<void> {
    if (this.#isBeside) await this.#files.removeFolder(this.folder).catch(() => {});
    this.#lock?.release();
  }

  async #begin(): Promise<void> {
    const { folder, replace, exclusive } = this.#options;
    await ensureFolder(this.#files, dirname(folder));
    const present = namesIn(this.#files, folder);
    if (present !== undefined && exclusive) this.#lock = await FolderLock.take(folder);
    if (!replace && present !== undefined && present.length > 0)
      throw new InvalidStateError(
        `the tablet in ${folder} is not empty: restore elsewhere, or give --replace to discard its data`,
      );
    if (namesIn(this.#files, this.folder) !== undefined) await this.#clear();
    await ensureFolder(this.#files, this.folder);
  }

  /** Removes what an interrupted restore left unfinished; keeps everything else under another name. */
  async #clear(): Promise<void> {
    const { exclusive, folder } = this.#options;
    const lock = exclusive ? await FolderLock.take(this.folder) : undefined;
    try {
      if (await this.#isUnfinished()) await this.#files.removeFolder(this.folder);
      else await this.#move(this.folder, freeReplacedName(this.#files, folder));
    } finally {
      lock?.release();
    }
  }

  async #isUnfinished(): Promise<boolean> {
    const left = new JournalFolder(this.#options.lines, this.folder);
    for (const number of left.numbers("journal").reverse()) {
      // A damaged journal is not that of an unfinished restore, whose journals can only be torn.
      const head = await left.headOf(number).catch(() => ({ claim: { isRestore: false } }));
      if (head !== undefined) return head.claim.isRestore === true;
    }
    // Without a head there are at most torn journals. Other files are not of a restore.
    return (namesIn(this.#files, this.folder) ?? []).every((name) => name.startsWith("journal."));
  }

  async #exchange(): Promise<void> {
    const { folder } = this.#options;
    const hadData = (namesIn(this.#files, folder) ?? []).length > 0;
    try {
      await this.#files.swap(this.folder, folder);
    } catch (error) {
      if (!hasCode(error, "EINVAL", "ENOSYS", "ENOTSUP", "EOPNOTSUPP")) throw this.#stillBeside(error);
      await this.#replaceInTwoSteps();
      return;
    }
    await this.#files.syncFolder(dirname(folder));
    if (hadData) await this.#move(this.folder, freeReplacedName(this.#files, folder));
    else await this.#files.removeFolder(this.folder);
  }

  /**
   * Replaces a folder on a file system that cannot exchange two names, e.g. NFS. A process that is killed in between
   * leaves no tablet in the folder; a start then refuses and names both.
   */
  async #replaceInTwoSteps(): Promise<void> {
    const { folder } = this.#options;
    const replaced = freeReplacedName(this.#files, folder);
    await this.#files.rename(folder, replaced).catch((error: unknown) => {
      throw this.#stillBeside(error);
    });
    try {
      await this.#files.rename(this.folder, folder);
    } catch (error) {
      await this.#files.rename(replaced, folder);
      throw this.#stillBeside(error);
    }
    await this.#files.syncFolder(dirname(folder));
  }

  async #move(from: string, to: string): Promise<void> {
    await this.#files.rename(from, to);
    await this.#files.syncFolder(dirname(to));
  }

  #stillBeside(error: unknown): unknown {
    this.#isBeside = true;
    return error;
  }
}
