import { InvalidStateError } from "@diskmesh/domain";
import type { JournalFolder } from "./journal-folder.js";

const OPENING_BRACE = 0x7b;

/**
 * A document in a snapshot, or as changed by a commit; null means deleted. Only rows of commits have a time and a cause,
 * except those of 0.1.0.
 */
export type Row = readonly [
  table: string,
  key: string,
  version: number,
  document: object | null,
  atMs?: number,
  cause?: string,
];

/** The first line of a snapshot. Format 3 has none. */
export interface SnapshotHead {
  readonly kind: "snapshot";
  readonly number: number;
  /** Checksum of the first line of the journal with the same number. */
  readonly journalSum: number;
  /** Place in the journals behind the last commit that the snapshot may contain. */
  readonly until: JournalPlace;
  /** Number of the oldest journal that stays for the history of changes; absent when none before this one does. */
  readonly historyFrom?: number | undefined;
}

/** A position in the journals of a folder. */
export interface JournalPlace {
  readonly number: number;
  readonly end: number;
}

/** Returns the first line of a snapshot; undefined for format 3. */
export async function snapshotHead(folder: JournalFolder, number: number): Promise<SnapshotHead | undefined> {
  let head: SnapshotHead | undefined;
  const { isChained } = await readLines(folder, number, (json) => {
    head = JSON.parse(json.toString()) as SnapshotHead;
    return false;
  });
  return isChained ? head : undefined;
}

/**
 * Calls back with each document of a snapshot; resolves with the snapshot's size. The last line holds the number of
 * documents.
 */
export async function readSnapshot(
  folder: JournalFolder,
  number: number,
  onDocument: (row: Row) => void,
): Promise<number> {
  let documents = 0;
  let counted: number | undefined;
  const { end } = await readLines(folder, number, (json) => {
    const value = JSON.parse(json.toString());
    if (json[0] === OPENING_BRACE) {
      counted = (value as { documents?: number }).documents;
      return;
    }
    documents++;
    onDocument(value as Row);
  });
  if (counted === documents) return end;
  throw new InvalidStateError(
    `${folder.path("snapshot", number)} is damaged: it is cut off at byte ${end}; ${folder.lines.cure}`,
  );
}

function readLines(folder: JournalFolder, number: number, onLine: (json: Buffer) => unknown) {
  return folder.lines.read(folder.path("snapshot", number), onLine, {
    id: { kind: "snapshot", number },
    isComplete: true,
  });
}
