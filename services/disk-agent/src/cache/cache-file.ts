import * as nodeFiles from "node:fs/promises";
import { type FileSystem, replaceFile } from "@diskmesh/atomic-file";
import { diskFullError, messageOf, UnavailableError } from "@diskmesh/domain";

/** What the cache takes of a file system; Node's own is one. */
export interface CacheFileSystem extends FileSystem {
  readFile(path: string, encoding: "utf8"): Promise<string>;
}

/** One small file that is replaced as a whole. Changes that come while it is written go together into the next write. */
export class CacheFile<Contents> {
  readonly #path: string;
  readonly #encode: (contents: Contents) => string;
  readonly #files: CacheFileSystem;
  #wanted: Contents | undefined;
  #stored: Contents | undefined;
  #writing: Promise<void> | undefined;
  #problem: string | undefined;

  /** `stored` is what the file holds already; undefined when it holds nothing valid. */
  constructor(options: {
    path: string;
    encode: (contents: Contents) => string;
    stored: Contents | undefined;
    files?: CacheFileSystem;
  }) {
    this.#path = options.path;
    this.#encode = options.encode;
    this.#files = options.files ?? nodeFiles;
    this.#stored = options.stored;
    this.#wanted = options.stored;
  }

  /** What is on disk; undefined when nothing valid is. */
  get stored(): Contents | undefined {
    return this.#stored;
  }

  /** Why the last write failed; undefined when it did not. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /** Finds out whether contents of this length can be written, by writing them again. Never throws: `problem` says it. */
  async check(): Promise<void> {
    if (this.#wanted === undefined || this.#writing !== undefined) return;
    await this.#write(this.#wanted).catch(() => undefined);
  }

  /** Resolves once these contents, or later ones, are on disk. Throws UnavailableError when they cannot be written. */
  async store(contents: Contents): Promise<void> {
    this.#wanted = contents;
    if (this.#stored === contents && this.#writing === undefined) return;
    // A write under way may carry older contents: wait for it, then for one that carries these.
    if (this.#writing) await this.#writing.catch(() => undefined);
    if (this.#stored === this.#wanted) return;
    await this.#write(this.#wanted);
  }

  #write(contents: Contents): Promise<void> {
    this.#writing ??= this.#writeNow(contents).finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #writeNow(contents: Contents): Promise<void> {
    try {
      await replaceFile(this.#path, this.#encode(contents), { files: this.#files });
      this.#stored = contents;
      this.#problem = undefined;
    } catch (error) {
      this.#problem = messageOf(error);
      const text = "the agent cannot remember the order";
      const noRoom = diskFullError(error, text, this.#path);
      throw noRoom ?? new UnavailableError(`${text} in ${this.#path}: ${messageOf(error)}`, { cause: error });
    }
  }
}

/** A file that was read, whatever it holds. */
export type ReadFile = { readonly text: string } | { readonly problem: string };

/** The text of a file; undefined when there is none. */
export async function readIfThere(path: string, files: CacheFileSystem = nodeFiles): Promise<ReadFile | undefined> {
  try {
    return { text: await files.readFile(path, "utf8") };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? undefined : { problem: messageOf(error) };
  }
}
