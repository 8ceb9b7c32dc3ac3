import { join } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import { type OrderedMap, orderedMap } from "../key-set.js";
import type { LogRecord, RecordRange } from "../storage.js";
import type { OpenFile } from "./files.js";
import type { LineFile, LineFiles } from "./line-file.js";
import { lineOf } from "./lines.js";

export const RECORDS = "records";
const FORMAT = "diskmesh event log 3";
/** Minimum size of removed records for a rewrite of the file; they must also make up at least half of the file. */
const REMOVED_BYTES_MIN = 4 * 2 ** 20;
const PIECE_BYTES = 2 ** 18;

/** A record; null means removed. */
type Row = readonly [key: string, text: string | null];

interface Place {
  readonly at: number;
  readonly sizeBytes: number;
}

interface Opened {
  readonly file: LineFile;
  readonly reader: OpenFile;
  readonly places: OrderedMap<Place>;
  removedBytes: number;
}

/** The records of an event log in a file with one line per row. Keys are kept in memory; texts are read on demand. */
export class EventRecords {
  #removedBytesMin = REMOVED_BYTES_MIN;

  private constructor(
    private readonly lines: LineFiles,
    private readonly folder: string,
    private opened: Opened,
  ) {}

  static async open(lines: LineFiles, folder: string): Promise<EventRecords> {
    return new EventRecords(lines, folder, await openFile(lines, join(folder, RECORDS)));
  }

  static async create(lines: LineFiles, folder: string): Promise<void> {
    await lines.replace(folder, RECORDS, pieces());
  }

  add(records: readonly LogRecord[]): Promise<void> {
    const added = new Map<string, string>();
    for (const { key, text } of records) if (!this.opened.places.has(key) && !added.has(key)) added.set(key, text);
    return this.#change([...added]);
  }

  remove(keys: readonly string[]): Promise<void> {
    const removed = [...new Set(keys)].filter((key) => this.opened.places.has(key));
    return this.#change(removed.map((key) => [key, null]));
  }

  async read({ prefix, after, limit, descending = false }: RecordRange): Promise<LogRecord[]> {
    const { places } = this.opened;
    const [low, high] = [after ?? prefix, `${prefix}\x7f`];
    const found: LogRecord[] = [];
    for (const [key, place] of descending ? places.entriesReversed(high) : places.entries(low)) {
      if (found.length >= limit || key < low || key > high) break;
      if (key !== low) found.push({ key, text: await this.#textAt(place) });
    }
    return found;
  }

  async close(): Promise<void> {
    await this.opened.file.close();
    await this.opened.reader.close();
  }

  /** Rewrites the file when it contains enough removed records. A failure leaves it unchanged. */
  async shrink(): Promise<void> {
    const { file, removedBytes } = this.opened;
    if (removedBytes < Math.max(this.#removedBytesMin, file.sizeBytes / 2)) return;
    this.#removedBytesMin = removedBytes + REMOVED_BYTES_MIN;
    await this.lines.replace(this.folder, RECORDS, pieces(this.#keptLines()));
    await this.close();
    this.opened = await openFile(this.lines, file.path);
    this.#removedBytesMin = REMOVED_BYTES_MIN;
  }

  async #change(rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const lines = rows.map((row) => lineOf(row));
    let at = await this.opened.file.append(Buffer.concat(lines));
    for (const [i, row] of rows.entries()) {
      const sizeBytes = (lines[i]?.length ?? 0) - 1;
      note(this.opened, row, { at, sizeBytes });
      at += sizeBytes + 1;
    }
  }

  async #textAt({ at, sizeBytes }: Place): Promise<string> {
    const json = this.lines.jsonOf(this.opened.file.path, await this.#bytesAt(at, sizeBytes), { at, seed: 0 });
    return (JSON.parse(json.toString()) as Row)[1] as string;
  }

  /** Yields the lines of all records in file order; the file is read in pieces. */
  async *#keptLines(): AsyncGenerator<Buffer> {
    const { file, places } = this.opened;
    const kept = Array.from(places.entries(), ([, place]) => place).sort((a, b) => a.at - b.at);
    let piece: Buffer = Buffer.alloc(0);
    let from = 0;
    for (const { at, sizeBytes } of kept) {
      if (at + sizeBytes >= from + piece.length) {
        piece = await this.#bytesAt(at, Math.min(Math.max(PIECE_BYTES, sizeBytes + 1), file.sizeBytes - at));
        from = at;
      }
      const line = piece.subarray(at - from, at - from + sizeBytes + 1);
      this.lines.jsonOf(file.path, line.subarray(0, -1), { at, seed: 0 });
      yield line;
    }
  }

  async #bytesAt(at: number, sizeBytes: number): Promise<Buffer> {
    const bytes = Buffer.alloc(sizeBytes);
    await this.opened.reader.read(bytes, 0, sizeBytes, at);
    return bytes;
  }
}

async function* pieces(lines: AsyncIterable<Buffer> | readonly Buffer[] = []): AsyncGenerator<Buffer> {
  let piece = [lineOf({ format: FORMAT })];
  let sizeBytes = 0;
  for await (const line of lines) {
    piece.push(line);
    sizeBytes += line.length;
    if (sizeBytes < PIECE_BYTES) continue;
    yield Buffer.concat(piece);
    piece = [];
    sizeBytes = 0;
  }
  yield Buffer.concat(piece);
}

async function openFile(lines: LineFiles, path: string): Promise<Opened> {
  const noted: Pick<Opened, "places" | "removedBytes"> = { places: orderedMap<Place>(), removedBytes: 0 };
  let format: unknown;
  const place = await lines.read(path, (json, { at, sizeBytes }) => {
    const value = JSON.parse(json.toString()) as Row | { readonly format: unknown };
    if ("format" in value) format = value.format;
    else note(noted, value, { at, sizeBytes });
  });
  if (format !== FORMAT)
    throw new InvalidStateError(
      `${path} has the format ${JSON.stringify(format)} instead of "${FORMAT}"; ${lines.cure}`,
    );
  return { ...noted, file: await lines.reopen(path, place), reader: await lines.files.open(path, "r") };
}

function note(opened: Pick<Opened, "places" | "removedBytes">, [key, text]: Row, place: Place): void {
  if (text !== null) opened.places.set(key, place);
  else {
    opened.removedBytes += place.sizeBytes + (opened.places.get(key)?.sizeBytes ?? 0);
    opened.places.delete(key);
  }
}
