import { constants } from "node:fs";
import * as nodeFiles from "node:fs/promises";
import { type FileSystem, replaceFile } from "@diskmesh/atomic-file";
import { diskFullError, messageOf, UnavailableError } from "@diskmesh/domain";
import { histogramOf } from "@diskmesh/metrics";
import { agentMetrics } from "../base/metrics.js";
import { encodeSlot, encodeSlots, fitsSlot, slotBytesFor, slotOffset } from "./slots.js";

/** An existing file that is written in place. */
interface WritableFile {
  write(text: string, position: number): Promise<{ readonly bytesWritten: number }>;
  stat(): Promise<FilePlace>;
  close(): Promise<void>;
}

/** Inode and device of a file, which stay the same when its path changes. */
interface FilePlace {
  readonly dev: number;
  readonly ino: number;
}

/**
 * O_DSYNC makes a write resolve once its data is durable. A separate sync would cost another round trip to a thread.
 */
const IN_PLACE = constants.O_RDWR | constants.O_DSYNC;

/** Part of a file system that the cache uses; Node's own file system satisfies it. */
export interface CacheFileSystem extends FileSystem {
  readFile(path: string, encoding: "utf8"): Promise<string>;
  open(path: string, flags: "r" | "w", mode: number): ReturnType<FileSystem["open"]>;
  open(path: string, flags: typeof IN_PLACE): Promise<WritableFile>;
  stat(path: string): Promise<FilePlace>;
}

/** The cache file, open for writes in place since this process created it. */
interface Slots {
  readonly file: WritableFile;
  readonly place: FilePlace;
  readonly slotBytes: number;
  lastNumber: number;
}

/**
 * A small file with two slots that are written alternately. Each write needs one sync; replacing the file would take
 * ten times as long. The file is replaced at the first write, when it grows, and after a failed write. Changes made
 * during a write share the next write.
 */
export class CacheFile<Contents> {
  readonly #path: string;
  readonly #encode: (contents: Contents) => string;
  readonly #files: CacheFileSystem;
  #wanted: Contents | undefined;
  #stored: Contents | undefined;
  #writing: Promise<void> | undefined;
  #slots: Slots | undefined;
  #problem: string | undefined;

  /** `encode` returns ASCII. `stored` is the file's present contents; undefined when the file holds nothing valid. */
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

  /** Contents of the file; undefined when the file holds nothing valid. */
  get stored(): Contents | undefined {
    return this.#stored;
  }

  /** Reason why the last write failed; undefined when it succeeded. */
  get problem(): string | undefined {
    return this.#problem;
  }

  /**
   * Writes the present contents again to test whether the file can be written. Never throws: `problem` has the error.
   */
  async check(): Promise<void> {
    if (this.#wanted === undefined || this.#writing !== undefined) return;
    const wanted = this.#wanted;
    await this.#write(wanted, () => this.#replace(this.#encode(wanted))).catch(() => undefined);
  }

  /** Closes the file. Nothing can be stored afterwards. */
  async close(): Promise<void> {
    await this.#writing?.catch(() => undefined);
    await this.#forgetSlots();
  }

  /** Resolves once these contents, or later ones, are on disk. Throws UnavailableError when they cannot be written. */
  async store(contents: Contents): Promise<void> {
    this.#wanted = contents;
    if (this.#stored === contents && this.#writing === undefined) return;
    // A running write may contain older contents, so the call waits for it, and then for a write with these contents.
    if (this.#writing) await this.#writing.catch(() => undefined);
    if (this.#stored === this.#wanted) return;
    await this.#write(this.#wanted);
  }

  #write(contents: Contents, put = () => this.#put(this.#encode(contents))): Promise<void> {
    this.#writing ??= this.#writeNow(contents, put).finally(() => {
      this.#writing = undefined;
    });
    return this.#writing;
  }

  async #put(text: string): Promise<void> {
    const slots = this.#slots;
    if (slots === undefined || !fitsSlot(text.length, slots.slotBytes)) return this.#replace(text);
    const { file, slotBytes } = slots;
    const number = slots.lastNumber + 1;
    const slot = encodeSlot(text, number, slotBytes);
    const { bytesWritten } = await file.write(slot, slotOffset(number, slotBytes));
    if (bytesWritten !== slotBytes) throw new Error(`only ${bytesWritten} of ${slotBytes} bytes could be written`);
    slots.lastNumber = number;
    // Replaces the file if another process has replaced or removed it, because the next start would otherwise read
    // outdated contents.
    const found = await this.#files.stat(this.#path).catch(() => undefined);
    if (found?.ino !== slots.place.ino || found.dev !== slots.place.dev) await this.#replace(text);
  }

  async #replace(text: string): Promise<void> {
    await this.#forgetSlots();
    const slotBytes = slotBytesFor(text.length);
    await replaceFile(this.#path, encodeSlots(text, slotBytes), { files: this.#files });
    const file = await this.#files.open(this.#path, IN_PLACE);
    this.#slots = { file, place: await file.stat(), slotBytes, lastNumber: 2 };
  }

  async #forgetSlots(): Promise<void> {
    const slots = this.#slots;
    this.#slots = undefined;
    await slots?.file.close().catch(() => undefined);
  }

  async #writeNow(contents: Contents, put: () => Promise<void>): Promise<void> {
    const startedAtMs = performance.now();
    const measure = (outcome: "done" | "failed") =>
      histogramOf(agentMetrics.cacheWrites).record((performance.now() - startedAtMs) / 1_000, { outcome });
    try {
      await put();
      measure("done");
      this.#stored = contents;
      this.#problem = undefined;
    } catch (error) {
      measure("failed");
      // After a failed write the slots' state is unknown, so the next write replaces the file.
      await this.#forgetSlots();
      this.#problem = messageOf(error);
      const text = "the agent cannot store the order";
      const noRoom = diskFullError(error, text, this.#path);
      throw noRoom ?? new UnavailableError(`${text} in ${this.#path}: ${messageOf(error)}`, { cause: error });
    }
  }
}

/** Result of reading a file. */
export type ReadFile = { readonly text: string } | { readonly problem: string };

/** Returns the text of a file; undefined when it does not exist. */
export async function readIfThere(path: string, files: CacheFileSystem): Promise<ReadFile | undefined> {
  try {
    return { text: await files.readFile(path, "utf8") };
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOENT" ? undefined : { problem: messageOf(error) };
  }
}
