import { readFile } from "node:fs/promises";
import type { Logger } from "@diskmesh/domain";
import { cannotRead } from "./tls-files.js";

/** Files are read rather than watched: what a mount or a link hides from a watch is seen all the same. */
const LOOK_INTERVAL_MS = 1_000;
/** What is being written reads differently then; what reads the same again is taken for written. */
const LOOK_AGAIN_MS = 200;

/** What files say. */
export type Contents<Name extends string> = { readonly [Each in Name]: Buffer };

/** What files say now; an error where one cannot be read. */
export type Found<Name extends string> = { readonly [Each in Name]: Buffer | Error };

export interface FileWatch<Name extends string> {
  /** Paths. Without one, what is in use stays so. */
  readonly files: { readonly [Each in Name]: string | undefined };
  readonly inUse: () => Contents<Name>;
  /**
   * Called at each look at which the files say something else than what is in use, once they have read the same twice.
   * They are not looked at again before it has ended.
   */
  readonly onOther: (found: Found<Name>) => void | Promise<void>;
}

/** What has each of those that are open look now. */
const looks = new Set<() => void>();

/** Some files that belong together, looked at each second. */
export class WatchedFiles<Name extends string> {
  #pending: Found<Name> | undefined;
  #told = "";
  #isLooking = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;
  readonly #lookNow = (): void => {
    this.#told = "";
    this.#lookIn(0);
  };

  constructor(private readonly watch: FileWatch<Name>) {
    looks.add(this.#lookNow);
    this.#lookIn(LOOK_INTERVAL_MS);
  }

  /** Has all files that are watched looked at now, and what is wrong with them told again. */
  static lookAtAll(): void {
    for (const look of looks) look();
  }

  /** Tells the log what is wrong with the files, but not again and again; empty: nothing is. */
  tell(log: Logger | undefined, problem: string): void {
    if (problem !== "" && problem !== this.#told)
      log?.error({ alert: "tls_files" }, `${problem}; what was in use before stays so until that is mended`);
    this.#told = problem;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    looks.delete(this.#lookNow);
  }

  #lookIn(delayMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#look(), delayMs).unref();
  }

  async #look(): Promise<void> {
    // A look that a file system keeps is not joined by others.
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { files, inUse, onOther } = this.watch;
    const found = await readFiles(files, inUse());
    const isSettled = this.#pending !== undefined && isSame(this.#pending, found);
    const isNews = !isSame(inUse(), found);
    this.#pending = isNews ? found : undefined;
    if (!isNews) this.#told = "";
    else if (isSettled && !this.#isClosed) await onOther(found);
    this.#isLooking = false;
    this.#lookIn(isNews && !isSettled ? LOOK_AGAIN_MS : LOOK_INTERVAL_MS);
  }
}

/** `otherwise` is what those say that have no path. */
export async function readFiles<Name extends string>(
  files: FileWatch<Name>["files"],
  otherwise: Contents<Name>,
): Promise<Found<Name>> {
  const read = namesOf(files).map(async (name) => {
    const file = files[name];
    if (file === undefined) return [name, otherwise[name]];
    return [name, await readFile(file).catch((error: unknown) => cannotRead(file, error))];
  });
  return Object.fromEntries(await Promise.all(read)) as Found<Name>;
}

function isSame<Name extends string>(one: Found<Name>, other: Found<Name>): boolean {
  return namesOf(other).every((name) => {
    const [a, b] = [one[name], other[name]];
    if (a instanceof Error || b instanceof Error)
      return a instanceof Error && b instanceof Error && a.message === b.message;
    return a.equals(b);
  });
}

function namesOf<Name extends string>(record: { readonly [Each in Name]: unknown }): Name[] {
  return Object.keys(record) as Name[];
}
