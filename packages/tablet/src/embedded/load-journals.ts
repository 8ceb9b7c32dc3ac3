import { setImmediate } from "node:timers/promises";
import type { Versioned } from "../documents/checksums.js";
import type { OnDocument } from "../storage/storage.js";
import { type Chain, chainTo, type Part } from "./chain.js";
import { collecting, type OnDamage, refuseDamage } from "./damage.js";
import type { JournalFolder, StoredClaim } from "./journal-folder.js";
import type { OnLine } from "./line-file.js";
import { type Row, readSnapshot } from "./snapshot-file.js";

/** Number of documents after which the loader yields to the event loop. */
const PIECE_DOCUMENTS = 2_000;

export interface StoredSizes {
  readonly journals: number;
  readonly journalsBytes: number;
  readonly snapshotBytes: number;
}

/** Treatment of damage: a start refuses it, `verify` and `salvage` collect it. */
export interface Reading {
  readonly onDamage: OnDamage;
  /** False ends the journals before the first damaged commit. True reads everything beside the damage. */
  readonly withGaps: boolean;
}

interface Loaded extends StoredSizes {
  /** True when the documents are the state after a commit, though perhaps not after the last one. */
  readonly isWhole: boolean;
  /** The latest claim that can be read. */
  readonly claim: StoredClaim | undefined;
}

/**
 * Calls back with each current document of the snapshot and of the journals up to `last`. Reads the journals first and
 * keeps the documents that they changed. Then reads the snapshot and passes on each document that no journal changed,
 * and finally the changed documents.
 */
export async function loadJournals(
  folder: JournalFolder,
  last: Part,
  onDocument: OnDocument,
  { onDamage, withGaps }: Reading = { onDamage: refuseDamage, withGaps: false },
): Promise<Loaded> {
  const chain = await chainTo(folder, last, onDamage);
  const { snapshot } = chain;
  const { changed, journalsBytes, isCut } = await readJournals(folder, chain, { onDamage, withGaps });
  const pass = ([table, key, version, document]: Row): void => {
    if (document !== null && !changed.has(table, key)) onDocument(table, key, { document, version });
  };
  const snapshotBytes =
    snapshot === undefined ? 0 : await collecting(onDamage, () => readSnapshot(folder, snapshot.number, pass));
  let passed = 0;
  for (const [table, key, stored] of changed.entries()) {
    onDocument(table, key, stored);
    if (++passed % PIECE_DOCUMENTS === 0) await setImmediate();
  }
  const isBaseWhole = snapshot === undefined ? chain.isComplete : snapshot.isIntact && snapshotBytes !== undefined;
  return {
    journals: chain.parts.length,
    journalsBytes,
    snapshotBytes: snapshotBytes ?? 0,
    isWhole: isBaseWhole && !(isCut && withGaps),
    claim: chain.claim,
  };
}

/** Reads the journals of a chain. `isCut` is true when commits are missing. */
async function readJournals(
  folder: JournalFolder,
  { parts, isComplete, snapshot }: Chain,
  { onDamage, withGaps }: Reading,
): Promise<{ changed: Changes; journalsBytes: number; isCut: boolean }> {
  const changed = new Changes();
  const until = snapshot?.until;
  let [isCut, hasReached, journalsBytes] = [!isComplete, false, 0];
  for (const { number, upTo, isIntact } of parts) {
    isCut ||= !isIntact;
    if (isCut && !withGaps) break;
    if (!isIntact) continue;
    let end = 0;
    const onLine: OnLine = (json, { at, sizeBytes }) => {
      if (at > 0) for (const row of JSON.parse(json.toString()) as readonly Row[]) changed.add(row);
      end = at + sizeBytes + 1;
    };
    const options = { id: { kind: "journal", number }, upTo };
    const read = await collecting(onDamage, () => folder.lines.read(folder.path("journal", number), onLine, options));
    journalsBytes += end;
    isCut ||= read === undefined;
    hasReached ||= number === until?.number && end >= until.end;
  }
  if (until !== undefined && !hasReached && !isCut) {
    const path = folder.path("journal", until.number);
    onDamage(folder.lines.damaged(path, until.end, "it ends before, but its snapshot holds what was there"));
    isCut = true;
  }
  // Fewer commits than the snapshot holds would undo some of its documents and not others.
  const isMixed = snapshot !== undefined && isCut && !hasReached && !withGaps;
  return { changed: isMixed ? new Changes() : changed, journalsBytes, isCut };
}

/** Documents that the journals changed, by table and key; null means deleted. */
class Changes {
  readonly #byTable = new Map<string, Map<string, Versioned | null>>();

  add([table, key, version, document]: Row): void {
    let documents = this.#byTable.get(table);
    if (documents === undefined) {
      documents = new Map();
      this.#byTable.set(table, documents);
    }
    documents.set(key, document === null ? null : { document, version });
  }

  has(table: string, key: string): boolean {
    return this.#byTable.get(table)?.has(key) === true;
  }

  *entries(): Generator<[table: string, key: string, stored: Versioned]> {
    for (const [table, documents] of this.#byTable)
      for (const [key, stored] of documents) if (stored !== null) yield [table, key, stored];
  }
}
