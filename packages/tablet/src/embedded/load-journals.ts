import { InvalidStateError } from "@diskmesh/domain";
import type { Versioned } from "../checksums.js";
import type { OnDocument } from "../storage.js";
import type { Journal, JournalFolder } from "./journal-folder.js";

const OPENING_BRACE = 0x7b;

/** A document in a snapshot, or as changed by a commit; null means deleted. */
export type Row = readonly [table: string, key: string, version: number, document: object | null];

export interface StoredSizes {
  readonly journals: number;
  readonly journalsBytes: number;
  readonly snapshotBytes: number;
}

interface Part {
  readonly number: number;
  readonly end: number;
}

/**
 * Calls back with each current document of the snapshot and of the journals up to `last`. Reads the journals first and
 * keeps the documents that they changed. Then reads the snapshot and passes on each document that no journal changed,
 * and finally the changed documents.
 */
export async function loadJournals(folder: JournalFolder, last: Journal, onDocument: OnDocument): Promise<StoredSizes> {
  const snapshot = folder.numbers("snapshot").at(-1);
  const parts = await journalsSince(folder, snapshot, { number: last.number, end: last.file.sizeBytes });
  const changed = new Map<string, Map<string, Versioned | null>>();
  let journalsBytes = 0;
  for (const { number, end } of parts) {
    journalsBytes += end;
    await folder.lines.read(
      folder.path("journal", number),
      (json, { at }) => {
        if (at > 0) for (const row of JSON.parse(json.toString()) as readonly Row[]) addRow(changed, row);
      },
      { upTo: { end } },
    );
  }
  const snapshotBytes = await readSnapshot(folder, snapshot, (json) => {
    const [table, key, version, document] = JSON.parse(json.toString()) as Row;
    if (document !== null && changed.get(table)?.has(key) !== true) onDocument(table, key, { document, version });
  });
  for (const [table, documents] of changed)
    for (const [key, stored] of documents) if (stored !== null) onDocument(table, key, stored);
  return { journals: parts.length, journalsBytes, snapshotBytes };
}

/** Reads the same files as `loadJournals`; rejects with InvalidStateError for damage. */
export async function verifyJournals(folder: JournalFolder, last: Journal): Promise<void> {
  const snapshot = folder.numbers("snapshot").at(-1);
  const parts = await journalsSince(folder, snapshot, { number: last.number, end: last.file.sizeBytes });
  for (const { number, end } of parts)
    await folder.lines.read(folder.path("journal", number), () => {}, { upTo: { end } });
  await readSnapshot(folder, snapshot, () => {});
}

/** Returns the journals since the snapshot up to `last`, oldest first, by following the links in their heads. */
async function journalsSince(folder: JournalFolder, snapshot: number | undefined, last: Part): Promise<Part[]> {
  const parts = [last];
  for (let part = last; part.number !== snapshot; ) {
    const { previous, end } = (await folder.headOf(part.number, part.end)) ?? {};
    if (previous === undefined && snapshot === undefined) break;
    if (previous === undefined || end === undefined || previous < (snapshot ?? 0))
      throw new InvalidStateError(
        `${folder.path("journal", snapshot ?? 0)} is missing in the chain of journals: ${folder.lines.cure}`,
      );
    part = { number: previous, end };
    parts.unshift(part);
  }
  return parts;
}

/**
 * Calls back with the JSON text of each document; resolves with the size. The snapshot's last line holds the number of
 * documents.
 */
async function readSnapshot(
  folder: JournalFolder,
  number: number | undefined,
  onDocument: (json: Buffer) => void,
): Promise<number> {
  if (number === undefined) return 0;
  const path = folder.path("snapshot", number);
  let documents = 0;
  let counted: number | undefined;
  const { end: sizeBytes } = await folder.lines.read(path, (json) => {
    if (json[0] === OPENING_BRACE) {
      counted = (JSON.parse(json.toString()) as { documents: number }).documents;
      return;
    }
    documents++;
    onDocument(json);
  });
  if (counted === documents) return sizeBytes;
  throw new InvalidStateError(`${path} is damaged: it is cut off at byte ${sizeBytes}; ${folder.lines.cure}`);
}

function addRow(changed: Map<string, Map<string, Versioned | null>>, [table, key, version, document]: Row): void {
  let documents = changed.get(table);
  if (documents === undefined) {
    documents = new Map();
    changed.set(table, documents);
  }
  documents.set(key, document === null ? null : { document, version });
}
