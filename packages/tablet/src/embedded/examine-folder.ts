import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { InvalidStateError } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import { checksumInAnyOrder, type Versioned } from "../documents/checksums.js";
import type { Schema } from "../documents/schema.js";
import { Examination, type Examined } from "../examine/examination.js";
import { type Files, systemFiles } from "./files.js";
import { JournalFolder } from "./journal-folder.js";
import { LineFiles } from "./line-file.js";
import { loadJournals } from "./load-journals.js";

const LEFT_OUT = "the data after it is left out";

export interface ExamineOptions {
  readonly folder: string;
  readonly schema: Schema;
  /** See Reading. */
  readonly withGaps: boolean;
  readonly files?: Files;
  /** False in tests, which have no folder to lock. */
  readonly exclusive?: boolean;
}

/**
 * Loads a tablet's folder like a start, without a claim, and collects the damage that a start refuses. Changes nothing.
 * Rejects with UnavailableError while a process uses the folder, and with InvalidStateError for a folder without
 * journals.
 */
export async function examineFolder({ folder, exclusive = true, ...options }: ExamineOptions): Promise<Examined> {
  const { files = systemFiles } = options;
  if (exclusive && !existsSync(folder)) throw new InvalidStateError(`${folder} holds no tablet: it does not exist`);
  const journals = new JournalFolder(new LineFiles(files, "tablet", LEFT_OUT), folder);
  if (journals.numbers("journal").length === 0)
    throw new InvalidStateError(`${folder} holds no tablet: it has no journal`);
  const lock = exclusive ? await FolderLock.take(folder) : undefined;
  try {
    return await examine(journals, new Examination(options.schema), options.withGaps);
  } finally {
    lock?.release();
  }
}

async function examine(folder: JournalFolder, found: Examination, withGaps: boolean): Promise<Examined> {
  // The same damage shows in several readings of a file.
  const onDamage = ({ message }: InvalidStateError): void => {
    if (!found.problems.includes(message)) found.problems.push(message);
  };
  const last = await folder.lastJournal(undefined, onDamage);
  if (last === undefined) throw new InvalidStateError(`${folder.folder}: ${found.problems.join("; ")}`);
  const onDocument = (table: string, key: string, stored: Versioned): void =>
    found.add(table, key, { ...stored, checksum: checksumInAnyOrder(table, key, stored) });
  const { claim, isWhole } = await loadJournals(folder, last, onDocument, { onDamage, withGaps });
  if (claim?.isRestore) found.problems.push("it contains a partly restored backup, whose restore was interrupted");
  if (claim === undefined)
    found.problems.push(
      "no claim can be read, so the tablet's identity is not known; a backup gets a new identity, which agents obey only after AdoptFleet",
    );
  const { tabletId = randomUUID(), incarnation = randomUUID(), parentIncarnations = [], generation = 1 } = claim ?? {};
  return {
    claim: { tabletId, incarnation, parentIncarnations, generation },
    ...found.result(isWhole && !claim?.isRestore),
  };
}
