import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { InvalidStateError, messageOf } from "@diskmesh/domain";
import { FolderLock } from "@diskmesh/file-lock";
import type { StoredSums } from "../checksums.js";
import { Examination, type Examined } from "../examine/examination.js";
import { textAt } from "../place.js";
import type { Schema } from "../schema.js";
import type { Claim } from "../storage.js";
import { checkDataFile } from "./data-file.js";
import { META } from "./environment.js";
import { TableRecords } from "./record.js";

/**
 * Reads a tablet's folder without changing it, up to the first damaged page. Rejects with UnavailableError while a process
 * uses it.
 */
export async function examineLmdb(folder: string, schema: Schema): Promise<Examined> {
  const file = join(folder, "data.mdb");
  if (!existsSync(file)) throw new InvalidStateError(`${folder} holds no tablet: ${file} does not exist`);
  const lock = await FolderLock.take(folder);
  try {
    return await examine(file, schema);
  } finally {
    lock.release();
  }
}

async function examine(file: string, schema: Schema): Promise<Examined> {
  const found = new Examination(schema);
  const recordsOf = new Map<string, TableRecords>();
  const meta = new Map<string, object>();
  const readOn = checkDataFile(file, (table, key, value) => {
    const name = textAt(key);
    const records = recordsOf.get(table) ?? new TableRecords(table);
    recordsOf.set(table, records);
    try {
      const checked = records.decode(key, value);
      if (table === META) meta.set(name, checked.document);
      else found.add(table, name, checked);
    } catch (error) {
      // Others of the meta table are plain text.
      if (table !== META) found.leaveOut(table, name, messageOf(error));
    }
  });
  await readOn.catch((error) => found.problems.push(`${messageOf(error)}; what is behind that page is left out`));
  const [claim, sums] = [
    meta.get("claim") as (Claim & { readonly isRestore?: true }) | undefined,
    meta.get("sums") as StoredSums | undefined,
  ];
  if (sums !== undefined) found.compare(sums);
  if (claim?.isRestore) found.problems.push("it holds a part of a backup, whose restore was cut off");
  if (claim === undefined)
    found.problems.push(
      "no claim can be read: nothing tells which tablet this is; a backup gets a new identity, which agents obey only after AdoptFleet",
    );
  const { tabletId = randomUUID(), incarnation = randomUUID(), parentIncarnations = [], generation = 1 } = claim ?? {};
  return {
    claim: { tabletId, incarnation, parentIncarnations, generation },
    documents: found.documents,
    problems: found.problems,
  };
}
