import { FORMAT_TABLE } from "../../format.js";
import type { DocumentChange, Fields, Range, StoredDocument, ViewWrite } from "../document-server.js";
import { decodeDocument } from "../encoding.js";
import type { ClaimEntry, CommitEntry, Entry } from "../log.js";

export const TABLET = "registry";
export const LOG = `${TABLET}.log`;

/** What must never happen has happened. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/**
 * What the simulated server holds. Every method touches one document atomically, or reads a part of a collection.
 * It remembers each log entry for ever, and throws when two different ones were ever accepted at one number.
 */
export class SharedDocuments {
  readonly #collections = new Map<string, Map<string | number, StoredDocument>>();
  /** By log number. */
  readonly #history: { readonly json: string; readonly entry: Entry }[] = [];
  readonly #committed = new Set<string>();
  /** What writes to the view replaced. */
  readonly #replaced: { readonly collection: string; readonly stored: StoredDocument }[] = [];
  /** The highest claimed. */
  #generation = 0;
  #life: string | undefined;

  collections(prefix: string): string[] {
    return [...this.#collections.keys()].filter((name) => name.startsWith(prefix));
  }

  get(collection: string, id: string | number): StoredDocument | undefined {
    return this.#of(collection).get(id);
  }

  find(collection: string, { after, below, kinds }: Range, descending = false): StoredDocument[] {
    const found = [...this.#of(collection).values()].filter(
      ({ _id, kind }) =>
        (after === undefined || _id > after) &&
        (below === undefined || _id < below) &&
        (kinds === undefined || kinds.includes(kind as string)),
    );
    found.sort((a, b) => (a._id < b._id ? -1 : 1));
    return descending ? found.reverse() : found;
  }

  insert(collection: string, document: StoredDocument): boolean {
    const documents = this.#of(collection);
    if (documents.has(document._id)) return false;
    if (collection === LOG) this.#remember(document as unknown as Entry);
    documents.set(document._id, document);
    return true;
  }

  update(collection: string, id: string, where: Fields, { set, increment }: DocumentChange): boolean {
    const stored = this.#of(collection).get(id);
    if (stored === undefined || Object.entries(where).some(([name, value]) => stored[name] !== value)) return false;
    this.#of(collection).set(id, { ...stored, ...set, [increment]: (stored[increment] as number) + 1 });
    return true;
  }

  /** False when the id existed when it was to be inserted. */
  write(collection: string, { id, seq, document }: ViewWrite): boolean {
    const documents = this.#of(collection);
    const stored = documents.get(id);
    const isLower = stored !== undefined && !((stored._seq as number) >= seq);
    if (document === null) {
      if (isLower) documents.delete(id);
      return true;
    }
    if (stored !== undefined && !isLower) return false;
    if (stored !== undefined) this.#replaced.push({ collection, stored });
    documents.set(id, { _id: id, ...document, _seq: seq });
    return true;
  }

  delete(collection: string, id: string | number): void {
    this.#of(collection).delete(id);
  }

  /** Somebody deletes a document of the view, or puts an earlier one in its place, as copies of different moments do. */
  tamper(below: (limit: number) => number): void {
    const collections = [...this.#collections.keys()].filter((name) => name.startsWith(`${TABLET}.`) && name !== LOG);
    const collection = collections[below(collections.length)];
    if (collection === undefined) return;
    const documents = this.#of(collection);
    const id = [...documents.keys()][below(documents.size)];
    const earlier = this.#replaced[below(this.#replaced.length)];
    if (earlier !== undefined && below(2) === 0) this.#of(earlier.collection).set(earlier.stored._id, earlier.stored);
    else if (id !== undefined) documents.delete(id);
  }

  /** The outcome of all commits before that number. */
  foldBefore(end: number): Map<string, unknown> {
    const state = new Map<string, unknown>();
    for (const { entry } of this.#history.slice(0, end).filter((each) => each !== undefined)) {
      if (entry.kind !== "commit") continue;
      for (const { table, id, document } of entry.changes) {
        if (table === FORMAT_TABLE) continue;
        if (document === null) state.delete(`${table}/${id}`);
        else state.set(`${table}/${id}`, decodeDocument(table, id, document).document);
      }
    }
    return state;
  }

  /** Whether a transaction has ever been in the log. */
  hasCommitted(transaction: string): boolean {
    return this.#committed.has(transaction);
  }

  #of(collection: string): Map<string | number, StoredDocument> {
    let documents = this.#collections.get(collection);
    if (documents === undefined) {
      documents = new Map();
      this.#collections.set(collection, documents);
    }
    return documents;
  }

  /** Of claims that were accepted at numbers of their own: agents tell leaders apart by these. */
  #checkClaim({ generation, incarnation, tabletId }: ClaimEntry): void {
    if (generation <= this.#generation) throw new Violation(`generation ${generation} after ${this.#generation}`);
    this.#generation = generation;
    if (incarnation === undefined) return;
    const life = `${tabletId} ${incarnation}`;
    this.#life ??= life;
    if (this.#life !== life) throw new Violation(`a claim of ${life} in the tablet ${this.#life}`);
  }

  #remember(entry: Entry): void {
    const json = JSON.stringify(entry);
    const before = this.#history[entry._id];
    if (before === undefined) {
      if (entry.kind === "claim") this.#checkClaim(entry);
      this.#history[entry._id] = { json, entry };
      if (entry.kind === "commit") for (const transaction of transactionsIn(entry)) this.#committed.add(transaction);
      return;
    }
    // A claimant that slept since it chose its number may land in a deleted part of the log; it then finds later entries.
    const isAbandoned = entry.kind === "claim" && this.find(LOG, { after: entry._id }).length > 0;
    if (before.json !== json && !isAbandoned) {
      throw new Violation(`two entries at ${entry._id}: ${before.json} and ${json}`);
    }
  }
}

function transactionsIn({ changes }: CommitEntry): readonly string[] {
  return changes.flatMap(({ table, document }) => (table === "head" ? (document?.pending as string[]) : []));
}
