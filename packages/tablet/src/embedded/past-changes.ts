import { UnavailableError } from "@diskmesh/domain";
import type { KeptCommits, PastChange, PastChangesOf } from "../storage/storage.js";
import { type Part, previousOf } from "./chain.js";
import type { JournalFolder, ReadHead } from "./journal-folder.js";
import type { OnLine } from "./line-file.js";
import type { Row } from "./snapshot-file.js";

/**
 * Calls back with each change of a document in the journals up to `last` and in those before the snapshot that still
 * exist, oldest first. Keeps one line in memory at a time. Rejects with UnavailableError when a snapshot removes a
 * journal meanwhile, and with InvalidStateError for damage.
 */
export async function readPastChanges(
  folder: JournalFolder,
  last: Part,
  of: PastChangesOf,
  onChange: (change: PastChange) => void,
): Promise<KeptCommits> {
  const { table, key, before, signal } = of;
  // Found faster in the text of a line than by parsing it.
  const sought = Buffer.from(`[${JSON.stringify(table)},${JSON.stringify(key)},`);
  let sinceMs: number | undefined;
  const { parts, isComplete } = await reading(folder, last.number, () => partsTo(folder, last));
  for (const { number: journal, upTo } of parts) {
    const onLine: OnLine = (json, { at }) => {
      signal.throwIfAborted();
      if (before !== undefined && (journal > before.journal || (journal === before.journal && at >= before.at)))
        return false;
      if (at === 0 || (sinceMs !== undefined && !json.includes(sought))) return true;
      for (const [ofTable, ofKey, , document, atMs, cause] of JSON.parse(json.toString()) as readonly Row[]) {
        sinceMs ??= atMs;
        if (ofTable === table && ofKey === key) onChange({ commit: { journal, at }, atMs, cause, document });
      }
      return true;
    };
    const options = { id: { kind: "journal", number: journal }, upTo };
    await reading(folder, journal, () => folder.lines.read(folder.path("journal", journal), onLine, options));
  }
  return { sinceMs, isComplete };
}

/** Finds the journals that exist, oldest first, by following the links in their heads back from `last`. */
async function partsTo(folder: JournalFolder, last: Part): Promise<{ parts: Part[]; isComplete: boolean }> {
  const present = new Set(folder.numbers("journal"));
  const parts: Part[] = [];
  let head: ReadHead | undefined;
  for (let part: Part | undefined = last; part !== undefined && present.has(part.number); ) {
    const { number, upTo }: Part = part;
    head = await folder.headOf(number, upTo);
    parts.unshift(part);
    part = previousOf(folder, number, head);
  }
  return { parts, isComplete: head?.previous === undefined && head?.claim.parentIncarnations.length === 0 };
}

async function reading<T>(folder: JournalFolder, number: number, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    if (folder.numbers("journal").includes(number)) throw error;
    throw new UnavailableError(`a snapshot has just replaced journal ${number} of the tablet: ask again`, {
      cause: error,
    });
  }
}
