import { join } from "node:path";
import type { LineFile, LineFiles, Place } from "./line-file.js";
import { lineOf } from "./lines.js";

/** Size of a stream's last file from which the next append starts a new file. */
const FILE_BYTES = 2 ** 20;
/** Maximum size of a line. A larger append is split into several lines, each durable before the next. */
const APPEND_BYTES = 4 * 2 ** 20;
const INDEX_DIGITS = 15;
const FILE_NAME = /^stream\.(.+)\.([0-9]{15})$/;

/** A file of a stream. Its name contains the stream and the index of the file's first entry. */
export interface StreamFile {
  readonly stream: string;
  readonly first: number;
}

/** Returns the file's name. Characters of stream names that file names do not allow are replaced one to one. */
function streamFileName({ stream, first }: StreamFile): string {
  const name = stream.replaceAll("/", "+").replaceAll(":", ",");
  return `stream.${name}.${String(first).padStart(INDEX_DIGITS, "0")}`;
}

/** Parses a file name; undefined for any other file. */
export function streamFileOf(fileName: string): StreamFile | undefined {
  const [, name, first] = FILE_NAME.exec(fileName) ?? [];
  if (name === undefined) return undefined;
  return { stream: name.replaceAll("+", "/").replaceAll(",", ":"), first: Number(first) };
}

/**
 * A stream of an event log, stored in files of lines. Each line is a JSON array of the entries of one append, so a
 * crash can tear only the last append. Files are ordered by index. A crash during a trim may leave entries in two
 * files; the later file wins. Calls must not overlap.
 */
export class EventStream {
  readonly #lines: LineFiles;
  readonly #folder: string;
  readonly #name: string;
  /** Index of each file's first entry, ascending. */
  readonly #firsts: number[];
  #last: { readonly file: LineFile; next: number } | undefined;

  constructor(lines: LineFiles, folder: string, name: string, firsts: readonly number[]) {
    this.#lines = lines;
    this.#folder = folder;
    this.#name = name;
    this.#firsts = [...firsts];
  }

  get firsts(): readonly number[] {
    return this.#firsts;
  }

  async append(entries: readonly string[]): Promise<number> {
    let next = (await this.bounds()).next;
    for (const part of partsOf(entries)) {
      const last = await this.#writable();
      await last.file.append(lineOf(part));
      last.next += part.length;
      next = last.next;
    }
    return next;
  }

  async bounds(): Promise<{ first: number; next: number }> {
    if (this.#firsts.length === 0) return { first: 0, next: 0 };
    const { next } = await this.#open();
    return { first: this.#firsts[0] ?? next, next };
  }

  async read(from: number, limit: number): Promise<{ lines: string[]; next: number }> {
    const lines: string[] = [];
    let next = from;
    for (const [place, first] of this.#firsts.entries()) {
      const below = this.#firsts[place + 1] ?? Number.POSITIVE_INFINITY;
      if (below <= from || lines.length >= limit) continue;
      await this.#readFile(first, (entry, index) => {
        if (lines.length >= limit || index >= below) return false;
        if (index >= from) {
          lines.push(entry);
          next = index + 1;
        }
        return true;
      });
    }
    return { lines, next };
  }

  /**
   * Removes whole files below the index, then rewrites the first remaining file without the entries below it. Never
   * removes the last entry.
   */
  async trim(below: number): Promise<void> {
    const { next } = await this.bounds();
    const to = Math.min(below, next - 1);
    for (let second = this.#firsts[1]; second !== undefined && second <= to; second = this.#firsts[1]) {
      await this.#lines.files.remove(this.#path(this.#firsts[0] as number));
      this.#firsts.shift();
    }
    const [first] = this.#firsts;
    if (first === undefined || first >= to) return;
    const kept: string[] = [];
    const end = this.#firsts[1] ?? next;
    await this.#readFile(first, (entry, index) => {
      if (index >= to && index < end) kept.push(entry);
      return index < end;
    });
    await this.close();
    await this.#lines.replace(this.#folder, this.#fileName(to), linesOf(kept));
    this.#firsts[0] = to;
    await this.#lines.files.remove(this.#path(first));
  }

  /** Removes all files of the stream, beginning with the last one, so that a crash leaves no gap. */
  async drop(): Promise<void> {
    await this.close();
    for (let first = this.#firsts.at(-1); first !== undefined; first = this.#firsts.at(-1)) {
      await this.#lines.files.remove(this.#path(first));
      this.#firsts.pop();
      await this.#lines.files.syncFolder(this.#folder);
    }
  }

  async close(): Promise<void> {
    const last = this.#last;
    this.#last = undefined;
    await last?.file.close();
  }

  async #writable(): Promise<{ readonly file: LineFile; next: number }> {
    const last = this.#firsts.length === 0 ? undefined : await this.#open();
    if (last !== undefined && last.file.sizeBytes < FILE_BYTES) return last;
    const first = last?.next ?? 0;
    const file = await this.#lines.reopen(this.#path(first), { end: 0, sum: 0 });
    try {
      await this.#lines.files.syncFolder(this.#folder);
    } catch (error) {
      await file.close();
      throw error;
    }
    await this.close();
    this.#firsts.push(first);
    this.#last = { file, next: first };
    return this.#last;
  }

  /** Opens the last file; counts its entries at the first call. */
  async #open(): Promise<{ readonly file: LineFile; next: number }> {
    if (this.#last !== undefined) return this.#last;
    const first = this.#firsts.at(-1) as number;
    let next = first;
    const place = await this.#readFile(first, () => {
      next++;
      return true;
    });
    this.#last = { file: await this.#lines.reopen(this.#path(first), place), next };
    return this.#last;
  }

  /** Calls back with each entry until the callback returns false; resolves with the end of the complete lines. */
  #readFile(first: number, onEntry: (entry: string, index: number) => boolean): Promise<Place> {
    let index = first;
    return this.#lines.read(this.#path(first), (json) =>
      (JSON.parse(json.toString()) as string[]).every((entry) => onEntry(entry, index++)),
    );
  }

  #path(first: number): string {
    return join(this.#folder, this.#fileName(first));
  }

  #fileName(first: number): string {
    return streamFileName({ stream: this.#name, first });
  }
}

async function* linesOf(entries: readonly string[]): AsyncGenerator<Buffer> {
  for (const part of partsOf(entries)) yield lineOf(part);
}

function partsOf(entries: readonly string[]): string[][] {
  const parts: string[][] = [];
  let sizeBytes = 0;
  for (const entry of entries) {
    if (parts.length === 0 || sizeBytes + entry.length > APPEND_BYTES) {
      parts.push([]);
      sizeBytes = 0;
    }
    parts.at(-1)?.push(entry);
    sizeBytes += entry.length;
  }
  return parts;
}
