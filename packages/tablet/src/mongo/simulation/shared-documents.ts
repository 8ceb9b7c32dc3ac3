import type { DocumentChange, Fields, Range, StoredDocument, ViewWrite } from "../document-server.js";
import type { Entry } from "../log.js";
import { LogHistory } from "./log-history.js";

export const TABLET = "registry";
export const LOG = `${TABLET}.log`;

/**
 * Content of the simulated server. Each method atomically changes one document or reads a part of a collection. Log
 * entries are also added to the log's history, which throws when an invariant is violated.
 */
export class SharedDocuments {
  readonly #collections = new Map<string, Map<string | number, StoredDocument>>();
  readonly log = new LogHistory();
  /** Documents that writes to the view have replaced; `tamper` puts them back. */
  readonly #replaced: { readonly collection: string; readonly stored: StoredDocument }[] = [];
  #isFormer = false;

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
    if (collection === LOG) this.#note(document as unknown as Entry);
    documents.set(document._id, document);
    return true;
  }

  update(collection: string, id: string, where: Fields, { set, increment }: DocumentChange): boolean {
    const stored = this.#of(collection).get(id);
    if (stored === undefined || Object.entries(where).some(([name, value]) => stored[name] !== value)) return false;
    this.#of(collection).set(id, { ...stored, ...set, [increment]: (stored[increment] as number) + 1 });
    return true;
  }

  /**
   * Replaces or deletes a document with a lower number, or inserts one. Returns false when an insert fails because the
   * id exists.
   */
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

  /**
   * Deletes a document of the view or restores an earlier version, like a copy whose parts were made at different
   * moments.
   */
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

  /** Drops the tablet's collections; the lease stays. */
  drop(): void {
    for (const collection of this.collections(`${TABLET}.`)) this.#collections.delete(collection);
    this.log.drop();
  }

  /** Runs a write that was sent before the collections were dropped. */
  runFormer(write: () => void): void {
    this.#isFormer = true;
    try {
      write();
    } finally {
      this.#isFormer = false;
    }
  }

  #note(entry: Entry): void {
    if (this.#isFormer) this.log.addFormer(entry);
    else this.log.add(entry, this.find(LOG, { after: entry._id }).length === 0);
  }

  #of(collection: string): Map<string | number, StoredDocument> {
    let documents = this.#collections.get(collection);
    if (documents === undefined) {
      documents = new Map();
      this.#collections.set(collection, documents);
    }
    return documents;
  }
}
