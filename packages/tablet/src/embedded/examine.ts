import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { checksumInAnyOrder, type Versioned } from "../checksums.js";
import { Examination, type Examined } from "../examine/examination.js";
import type { Schema } from "../schema.js";
import { systemFiles } from "./files.js";
import { JournalFolder, type StoredClaim } from "./journal-folder.js";
import { LineFiles, type LinePlace } from "./line-file.js";
import { refuseLmdbFolder } from "./lmdb-folder.js";
import type { Row } from "./load-journals.js";

const LEFT_OUT = "the data after it is left out";

type Documents = Map<string, Map<string, Versioned>>;

/**
 * Reads a tablet's folder without changing it. Reads a damaged snapshot up to the damage, so later documents of the
 * snapshot are missing. Reads the journals up to the first damage, so later commits are missing. Rejects with
 * UnavailableError while a process uses the folder.
 */
export async function examineEmbedded(folder: string, schema: Schema): Promise<Examined> {
  if (!existsSync(folder)) throw new InvalidStateError(`${folder} holds no tablet: it does not exist`);
  refuseLmdbFolder(folder, systemFiles.list(folder), "tablet");
  const journals = new JournalFolder(new LineFiles(systemFiles, "tablet", LEFT_OUT), folder);
  if (journals.numbers("journal").length === 0)
    throw new InvalidStateError(`${folder} holds no tablet: it has no journal`);
  const lock = await FolderLock.take(folder);
  try {
    return await examine(journals, new Examination(schema));
  } finally {
    lock.release();
  }
}

async function examine(folder: JournalFolder, found: Examination): Promise<Examined> {
  const documents: Documents = new Map();
  const snapshot = folder.numbers("snapshot").at(-1);
  const noteDamage = (error: unknown): void => void found.problems.push(messageOf(error));
  if (snapshot !== undefined) await readSnapshot(folder, snapshot, documents).catch(noteDamage);
  let claim: StoredClaim | undefined;
  try {
    for (const { number, end } of await chainOf(folder, snapshot)) {
      claim = (await folder.headOf(number))?.claim ?? claim;
      await readJournal(folder, number, end, documents);
    }
  } catch (error) {
    noteDamage(error);
  }
  for (const [table, byKey] of documents)
    for (const [key, stored] of byKey)
      found.add(table, key, { ...stored, checksum: checksumInAnyOrder(table, key, stored) });
  if (claim?.isRestore) found.problems.push("it contains a partly restored backup, whose restore was interrupted");
  if (claim === undefined)
    found.problems.push(
      "no claim can be read, so the tablet's identity is not known; a backup gets a new identity, which agents obey only after AdoptFleet",
    );
  const { tabletId = randomUUID(), incarnation = randomUUID(), parentIncarnations = [], generation = 1 } = claim ?? {};
  return {
    claim: { tabletId, incarnation, parentIncarnations, generation },
    documents: found.documents,
    problems: found.problems,
  };
}

/**
 * Returns the journals since the snapshot. `end` is the number of valid bytes of the journal, as stated by the next
 * journal's head or the end file; undefined if neither states it.
 */
async function chainOf(folder: JournalFolder, snapshot = 0): Promise<{ number: number; end: number | undefined }[]> {
  const chain: { number: number; end: number | undefined }[] = [];
  for (const number of folder.numbers("journal").filter((each) => each >= snapshot)) {
    const head = await folder.headOf(number).catch(() => undefined);
    const last = chain.at(-1);
    if (last !== undefined && head?.previous === last.number) last.end = head.end;
    chain.push({ number, end: await folder.notedEnd(number) });
  }
  return chain;
}

async function readJournal(
  folder: JournalFolder,
  number: number,
  end: number | undefined,
  documents: Documents,
): Promise<void> {
  const onLine = (json: Buffer, { at }: LinePlace): void => {
    // The first line is the journal's head.
    if (at > 0) for (const row of JSON.parse(json.toString()) as readonly Row[]) put(documents, row);
  };
  await folder.lines.read(folder.path("journal", number), onLine, {
    upTo: end === undefined ? undefined : { end: end },
  });
}

async function readSnapshot(folder: JournalFolder, number: number, documents: Documents): Promise<void> {
  const path = folder.path("snapshot", number);
  let isWhole = false;
  await folder.lines.read(path, (json) => {
    const value = JSON.parse(json.toString()) as Row | { readonly documents: number };
    if ("documents" in value) isWhole = true;
    else put(documents, value);
  });
  if (!isWhole) throw new InvalidStateError(`${path} is cut off; ${LEFT_OUT}`);
}

function put(documents: Documents, [table, key, version, document]: Row): void {
  const byKey = documents.get(table) ?? new Map<string, Versioned>();
  documents.set(table, byKey);
  if (document === null) byKey.delete(key);
  else byKey.set(key, { document, version });
}
