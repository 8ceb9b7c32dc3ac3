import { join } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import { type OrderedMap, orderedMap } from "../key-set.js";
import type { LogRecord, RecordRange } from "../storage.js";
import type { OpenFile } from "./files.js";
import { type LineFile, type LineFiles, lineOf } from "./line-file.js";

/** The name of the file. */
export const RECORDS = "records";
const FORMAT = "diskmesh event log 2";
/** The file is written anew when more than this, and more than half of the file, is of removed records. */
const REMOVED_BYTES_MIN = 4 * 2 ** 20;
const PIECE_BYTES = 2 ** 18;

/** A record; null: removed. */
type Row = readonly [key: string, text: string | null];

/** Where a record is: a row of the line at a byte. */
interface Place {
  readonly at: number;
  readonly sizeBytes: number;
  readonly row: number;
  /** The record's share of its line. */
  readonly shareBytes: number;
}

interface Opened {
  readonly file: LineFile;
  readonly reader: OpenFile;
  readonly places: OrderedMap<Place>;
  removedBytes: number;
}

/** The records of an event log: a file with a line for each change. Keys are in memory, texts are read when asked for. */
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

  /** Makes an empty file. */
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

  /** Writes the file anew when that is worth it; a failure leaves it as it is. */
  async shrink(): Promise<void> {
    const { file, removedBytes } = this.opened;
    if (removedBytes < Math.max(this.#removedBytesMin, file.sizeBytes / 2)) return;
    this.#removedBytesMin = removedBytes + REMOVED_BYTES_MIN;
    await this.lines.replace(this.folder, RECORDS, pieces(this.#rows()));
    await this.close();
    this.opened = await openFile(this.lines, file.path);
    this.#removedBytesMin = REMOVED_BYTES_MIN;
  }

  async #change(rows: readonly Row[]): Promise<void> {
    if (rows.length === 0) return;
    const line = lineOf(rows);
    const at = await this.opened.file.append(line);
    note(this.opened, rows, at, line.length - 1);
  }

  async #textAt({ at, sizeBytes, row }: Place): Promise<string> {
    const line = Buffer.alloc(sizeBytes);
    await this.opened.reader.read(line, 0, sizeBytes, at);
    const json = this.lines.jsonOf(this.opened.file.path, at, line);
    return (JSON.parse(json.toString()) as Row[])[row]?.[1] as string;
  }

  async *#rows(): AsyncGenerator<Row> {
    for (const [key, place] of this.opened.places.entries()) yield [key, await this.#textAt(place)];
  }
}

async function* pieces(rows: AsyncIterable<Row> | readonly Row[] = []): AsyncGenerator<Buffer> {
  let piece = lineOf({ format: FORMAT });
  for await (const row of rows) {
    piece = Buffer.concat([piece, lineOf([row])]);
    if (piece.length < PIECE_BYTES) continue;
    yield piece;
    piece = Buffer.alloc(0);
  }
  yield piece;
}

async function openFile(lines: LineFiles, path: string): Promise<Opened> {
  const noted: Pick<Opened, "places" | "removedBytes"> = { places: orderedMap<Place>(), removedBytes: 0 };
  let format: unknown;
  const sizeBytes = await lines.read(path, (json, at, sizeBytes) => {
    const value = JSON.parse(json.toString()) as readonly Row[] | { readonly format: unknown };
    if (Array.isArray(value)) note(noted, value, at, sizeBytes);
    else format = (value as { format: unknown }).format;
  });
  if (format !== FORMAT)
    throw new InvalidStateError(`${path} is not of a "${FORMAT}" but says ${JSON.stringify(format)}; ${lines.cure}`);
  return { ...noted, file: await lines.reopen(path, sizeBytes), reader: await lines.files.open(path, "r") };
}

function note(
  opened: Pick<Opened, "places" | "removedBytes">,
  rows: readonly Row[],
  at: number,
  sizeBytes: number,
): void {
  const shareBytes = sizeBytes / rows.length;
  for (const [row, [key, text]] of rows.entries()) {
    if (text !== null) opened.places.set(key, { at, sizeBytes, row, shareBytes });
    else {
      opened.removedBytes += shareBytes + (opened.places.get(key)?.shareBytes ?? 0);
      opened.places.delete(key);
    }
  }
}
