import { readFile } from "node:fs/promises";
import type { Logger } from "@diskmesh/domain";
import { cannotRead } from "./tls-files.js";

/** Files are polled, because a file system watch misses changes behind mounts and links. */
const READ_INTERVAL_MS = 1_000;
/**
 * Delay of the second read. A file may be half written at the first read; equal content in two reads is taken as
 * complete.
 */
const CONFIRM_DELAY_MS = 200;

/** Contents of files. */
export type Contents<Name extends string> = { readonly [Each in Name]: Buffer };

/** Contents of files, or the errors of reading them. */
export type Found<Name extends string> = { readonly [Each in Name]: Buffer | Error };

export interface FileWatch<Name extends string> {
  /** Paths. A file without a path keeps the content in use. */
  readonly files: { readonly [Each in Name]: string | undefined };
  readonly inUse: () => Contents<Name>;
  /**
   * Called when two reads in succession agree and differ from the content in use. The files are not read again before
   * the promise resolves.
   */
  readonly onChanged: (found: Found<Name>) => void | Promise<void>;
}

/** Functions that make each open watch read its files now. */
const watches = new Set<() => void>();

/** A set of files that belong together, read every second. */
export class WatchedFiles<Name extends string> {
  #pending: Found<Name> | undefined;
  #lastProblem = "";
  /** Log of the alert that has not ended. */
  #alertedLog: Logger | undefined;
  #isReading = false;
  #isClosed = false;
  #timer: NodeJS.Timeout | undefined;
  readonly #readNow = (): void => {
    this.#lastProblem = "";
    this.#readIn(0);
  };

  constructor(private readonly watch: FileWatch<Name>) {
    watches.add(this.#readNow);
    this.#readIn(READ_INTERVAL_MS);
  }

  /** Reads all watched files now, and logs their problems again. */
  static readAll(): void {
    for (const readNow of watches) readNow();
  }

  /** Logs a problem of the files unless it was the last one logged. An empty text means no problem. */
  logProblem(log: Logger | undefined, problem: string): void {
    if (problem === "") this.#endAlert();
    else if (problem !== this.#lastProblem) {
      this.#alertedLog = log;
      const text = `TLS file change rejected, previous files stay in use: ${problem}`;
      log?.error({ alert: "tls_files", alertOf: this.#name }, text);
    }
    this.#lastProblem = problem;
  }

  #endAlert(): void {
    const fields = { alertEnded: "tls_files", alertOf: this.#name } as const;
    this.#alertedLog?.info(fields, "TLS files are those in use, or are taken up");
    this.#alertedLog = undefined;
  }

  /** First of the files, which tells this set from others. */
  get #name(): string {
    return Object.values<string | undefined>(this.watch.files).find((path) => path !== undefined) ?? "";
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    watches.delete(this.#readNow);
  }

  #readIn(delayMs: number): void {
    clearTimeout(this.#timer);
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#read(), delayMs).unref();
  }

  async #read(): Promise<void> {
    // Skips this read while the previous one still waits for the file system.
    if (this.#isReading) return;
    this.#isReading = true;
    const { files, inUse, onChanged } = this.watch;
    const found = await readFiles(files, inUse());
    const isSettled = this.#pending !== undefined && isSame(this.#pending, found);
    const isChanged = !isSame(inUse(), found);
    this.#pending = isChanged ? found : undefined;
    if (!isChanged) this.logProblem(undefined, "");
    else if (isSettled && !this.#isClosed) await onChanged(found);
    this.#isReading = false;
    this.#readIn(isChanged && !isSettled ? CONFIRM_DELAY_MS : READ_INTERVAL_MS);
  }
}

/** Reads the files; a file without a path gets its content from `otherwise`. */
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
