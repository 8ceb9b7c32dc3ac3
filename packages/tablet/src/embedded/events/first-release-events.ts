import { join } from "node:path";
import { InvalidStateError } from "@diskmesh/domain";
import type { LineFiles } from "../line-file.js";
import type { Entry } from "./event-index.js";
import { entriesOf } from "./event-index.js";
import type { EventJournal } from "./event-journal.js";

const RECORDS = "records";
const FORMAT = "diskmesh event log 3";
/** Name of a file of a stream: the stream, and the index of the file's first line. */
const STREAM_FILE = /^stream\.(.+)\.([0-9]{15})$/;
/** Names of files that are left when the file of records was converted and removed. */
const CONVERTED_FILE = /^(stream\..+|records\.draft)$/;
/** Number of entries per write. */
const BATCH = 1_000;

/** A record, or its removal, in the first release's file of records. */
type Row = readonly [key: string, text: string | null];

/** True for a folder with an event log of the first release that is not completely converted. */
export function isOfFirstRelease(names: readonly string[]): boolean {
  return names.includes(RECORDS);
}

/**
 * Begins the journal with the first release's streams and records. An interrupted conversion
 * is begun anew, because the file of records is removed once the journal is complete. `removeConverted` ends it.
 */
export async function convertFirstRelease(lines: LineFiles, journal: EventJournal): Promise<void> {
  const { files } = journal;
  const { folder } = files;
  for (const number of files.numbers()) await files.remove(number);
  await journal.begin(1);
  let batch: Entry[] = [];
  const flush = async (): Promise<void> => {
    const entries = batch;
    batch = [];
    await journal.write("", () => entries);
  };
  for await (const entries of entriesIn(lines, folder)) {
    batch.push(...entries);
    if (batch.length >= BATCH) await flush();
  }
  await flush();
  await lines.files.remove(join(folder, RECORDS));
  await lines.files.syncFolder(folder);
}

/** Removes the streams of the first release after their conversion. */
export async function removeConverted(lines: LineFiles, folder: string): Promise<void> {
  for (const name of lines.files.list(folder))
    if (CONVERTED_FILE.test(name)) await lines.files.remove(join(folder, name));
}

async function* entriesIn(lines: LineFiles, folder: string): AsyncGenerator<readonly Entry[]> {
  const found = lines.files.list(folder).flatMap((fileName) => {
    const [, name = "", first] = STREAM_FILE.exec(fileName) ?? [];
    return first === undefined ? [] : { fileName, name, first: Number(first) };
  });
  found.sort((a, b) => (a.name === b.name ? a.first - b.first : a.name < b.name ? -1 : 1));
  for (const [i, { fileName, name, first }] of found.entries()) {
    const later = found[i + 1];
    // An interrupted trim leaves lines in two files; the later file wins.
    const count = later?.name === name ? later.first - first : Number.POSITIVE_INFINITY;
    const stored: string[] = [];
    await lines.read(join(folder, fileName), (json) => void stored.push(...(JSON.parse(json.toString()) as string[])));
    yield entriesOf(name.replaceAll("+", "/").replaceAll(",", ":"), first, stored.slice(0, count));
  }
  yield await recordsIn(lines, join(folder, RECORDS));
}

async function recordsIn(lines: LineFiles, path: string): Promise<Entry[]> {
  const texts = new Map<string, string>();
  let format: unknown;
  await lines.read(path, (json) => {
    const row = JSON.parse(json.toString()) as Row | { readonly format: unknown };
    if ("format" in row) format = row.format;
    else if (row[1] === null) texts.delete(row[0]);
    else texts.set(row[0], row[1]);
  });
  if (format !== FORMAT)
    throw new InvalidStateError(`${path} has the format ${JSON.stringify(format)}, not "${FORMAT}"; ${lines.cure}`);
  return Array.from(texts, ([key, text]) => ({ key, text }));
}
