import { type OrderedMap, orderedMap } from "../../documents/key-set.js";
import type { RecordRange } from "../../storage/storage.js";
import type { LinePlace } from "../line-file.js";

/**
 * A line of the event log: lines of a stream, the end of the stream's lines below an index (of the whole stream if none
 * remains), or a record, with null for its removal.
 */
export type Entry =
  | { readonly stream: string; readonly first: number; readonly lines: readonly string[] }
  | { readonly stream: string; readonly below: number }
  | { readonly key: string; readonly text: string | null };

/** Lines of one file of the event log. `seed` is the checksum of all lines before them. */
export interface Range {
  readonly file: number;
  readonly at: number;
  readonly end: number;
  readonly seed: number;
}

/** Consecutive lines of a stream from index `first` to below `next`. The first of them may be trimmed. */
interface Run extends Range {
  readonly first: number;
  next: number;
  end: number;
}

interface Stream {
  /** Index of the first line that is not trimmed. */
  first: number;
  /** Ascending by index. */
  readonly runs: Run[];
}

/** Maximum length of the lines in an entry, unless a single line is longer. */
const ENTRY_LENGTH = 4_096;
const SEPARATORS_LENGTH = 3;
/** Maximum size of a run of several entries. It bounds what a read of a single line reads. */
const RUN_BYTES = 2 ** 16;

/** In memory: where the files of an event log hold each stream and record. Texts are only in the files. */
export class EventIndex {
  readonly #streams = new Map<string, Stream>();
  readonly #records: OrderedMap<Range> = orderedMap();
  readonly #usedBytes = new Map<number, number>();

  /**
   * Notes an entry at its place. Entries are added in the order of the log. A stream's lines may come after later lines
   * of the stream, because lines that are kept are copied behind what was written since.
   */
  add(entry: Entry, file: number, { at, sizeBytes, seed }: LinePlace): void {
    const range = { file, at, end: at + sizeBytes + 1, seed };
    if ("lines" in entry) this.#addLines(entry.stream, entry.first, entry.lines.length, range);
    else if ("below" in entry) this.#trim(entry.stream, entry.below);
    else if (entry.text === null) this.#removeRecord(entry.key);
    else this.#addRecord(entry.key, range);
  }

  /** Forgets what files below the number hold. Their copies must be added next. */
  forgetBelow(file: number): void {
    for (const { runs } of this.#streams.values()) {
      const kept = runs.filter((run) => run.file >= file);
      if (kept.length < runs.length) runs.splice(0, runs.length, ...kept);
    }
    for (const [key, range] of [...this.#records.entries()]) if (range.file < file) this.#records.delete(key);
    for (const number of this.#usedBytes.keys()) if (number < file) this.#usedBytes.delete(number);
  }

  bounds(stream: string): { first: number; next: number } {
    const { first = 0, runs = [] } = this.#streams.get(stream) ?? {};
    return { first, next: runs.at(-1)?.next ?? first };
  }

  hasRecord(key: string): boolean {
    return this.#records.has(key);
  }

  /** Returns ranges with at least `limit` lines of the stream from an index on, or with all of them if they are fewer. */
  linesFrom(stream: string, from: number, limit: number): Range[] {
    const { runs = [] } = this.#streams.get(stream) ?? {};
    const start = Math.max(0, runsUpTo(runs, from) - 1);
    return runs.slice(start, start + limit + 1);
  }

  records({ prefix, after, limit, descending = false }: RecordRange): Range[] {
    const found: Range[] = [];
    const [low, high] = [after ?? prefix, `${prefix}\x7f`];
    for (const [key, range] of descending ? this.#records.entriesReversed(high) : this.#records.entries(low)) {
      if (found.length >= limit || key < low || key > high) break;
      if (key !== low) found.push(range);
    }
    return found;
  }

  /** Returns the bytes of a file that streams and records need. */
  usedBytes(file: number): number {
    return this.#usedBytes.get(file) ?? 0;
  }

  /** Returns the entry without trimmed lines; nothing if all of them are. */
  neededOf(entry: Entry): Entry[] {
    if (!("lines" in entry)) return [entry];
    const { stream, lines } = entry;
    const first = Math.max(entry.first, this.bounds(stream).first);
    const needed = lines.slice(first - entry.first);
    return needed.length === 0 ? [] : [{ stream, first, lines: needed }];
  }

  /** Returns the ranges in files below a number that streams and records need, by file. */
  rangesBelow(file: number): Range[] {
    const ranges: Range[] = [...this.#records.values()].filter((range) => range.file < file);
    for (const { runs } of this.#streams.values()) for (const run of runs) if (run.file < file) ranges.push(run);
    return ranges.sort((a, b) => a.file - b.file);
  }

  #addLines(name: string, first: number, count: number, range: Range): void {
    const stream = this.#streams.get(name) ?? { first, runs: [] };
    this.#streams.set(name, stream);
    stream.first = Math.min(stream.first, first);
    const place = runsUpTo(stream.runs, first);
    const before = stream.runs[place - 1];
    const follows = before?.file === range.file && before.end === range.at && before.next === first;
    if (follows && range.end - before.at <= RUN_BYTES) {
      before.next += count;
      before.end = range.end;
    } else stream.runs.splice(place, 0, { ...range, first, next: first + count });
    this.#use(range, 1);
  }

  #trim(name: string, below: number): void {
    const stream = this.#streams.get(name);
    if (stream === undefined) return;
    stream.first = Math.max(stream.first, below);
    let trimmed = runsUpTo(stream.runs, below);
    if ((stream.runs[trimmed - 1]?.next ?? 0) > below) trimmed--;
    for (const run of stream.runs.splice(0, trimmed)) this.#use(run, -1);
    if (stream.runs.length === 0) this.#streams.delete(name);
  }

  #addRecord(key: string, range: Range): void {
    if (this.#records.has(key)) return;
    this.#records.set(key, range);
    this.#use(range, 1);
  }

  #removeRecord(key: string): void {
    const range = this.#records.get(key);
    if (range === undefined) return;
    this.#records.delete(key);
    this.#use(range, -1);
  }

  #use({ file, at, end }: Range, sign: 1 | -1): void {
    this.#usedBytes.set(file, this.usedBytes(file) + sign * (end - at));
  }
}

/** Returns entries of a few KiB with the lines, which begin at index `first` of the stream. */
export function entriesOf(stream: string, first: number, lines: readonly string[]): Entry[] {
  const entries: { readonly stream: string; readonly first: number; readonly lines: string[] }[] = [];
  let length = Number.POSITIVE_INFINITY;
  for (const [i, line] of lines.entries()) {
    if (length + line.length > ENTRY_LENGTH) {
      entries.push({ stream, first: first + i, lines: [] });
      length = 0;
    }
    entries.at(-1)?.lines.push(line);
    length += line.length + SEPARATORS_LENGTH;
  }
  return entries;
}

/** Returns the number of runs that begin at the index or below. */
function runsUpTo(runs: readonly Run[], index: number): number {
  let low = 0;
  let high = runs.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((runs[middle] as Run).first <= index) low = middle + 1;
    else high = middle;
  }
  return low;
}
