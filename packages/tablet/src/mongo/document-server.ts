/** What one process asks a server at once, each on a connection of its own; the rest waits. */
export const CONNECTIONS_MAX = 32;

/** Values as MongoDB holds them, by field name. */
export type Fields = Readonly<Record<string, unknown>>;

export type StoredDocument = Fields & { readonly _id: string | number };

/** Of ids in ascending order, those above `after` and below `below`. */
export interface Range {
  readonly after?: string | number | undefined;
  readonly below?: string | number | undefined;
  /** Only documents with one of these values in their field `kind`. */
  readonly kinds?: readonly string[] | undefined;
}

/** What the readable view shall hold for one key, unless it holds something of that number or a higher one. */
export interface ViewWrite {
  readonly id: string;
  /** The number of the log entry that it comes from, stored as `_seq`. */
  readonly seq: number;
  /** null: nothing */
  readonly document: Fields | null;
}

/** What reading takes. */
export interface DocumentReader {
  /** For messages: host and database, never credentials. */
  readonly name: string;
  collections(prefix: string): Promise<string[]>;
  get(collection: string, id: string | number): Promise<StoredDocument | undefined>;
  find(
    collection: string,
    range: Range & { readonly limit: number; readonly descending?: boolean },
  ): Promise<StoredDocument[]>;
}

/**
 * The few operations on a MongoDB-compatible server that a tablet needs. Every write of one document is atomic, those
 * of several are not. Writes are acknowledged when they survive any failure that the server is made to survive, and
 * reads show nothing that it may still lose.
 *
 * All of them reject with LostAnswerError when the server did not say what became of them. Any other error means that
 * the server refused, and will refuse again.
 */
export interface DocumentServer extends DocumentReader {
  /**
   * Reads that come one after the other: none of them shows less than an earlier one, also when another member of the
   * server answers it. As good as single reads where the server has no sessions.
   */
  readInOrder<T>(read: (reader: DocumentReader) => Promise<T>): Promise<T>;
  /** False when there is one with that id. */
  insert(collection: string, document: StoredDocument): Promise<boolean>;
  /** Changes a document that has exactly the values of `where`. Returns whether there was such a one. */
  update(collection: string, id: string, where: Fields, change: DocumentChange): Promise<boolean>;
  /**
   * Replaces and deletes documents, each only where its `_seq` is lower or none; inserts those that are not there. Says which
   * were not done; a refusal is no error here, since what is refused now may be taken later.
   */
  write(collection: string, writes: readonly ViewWrite[]): Promise<WriteResult>;
  /** Deletes all in the range, in any order, perhaps only some when it fails. */
  delete(collection: string, range: Range): Promise<void>;
  /** Makes an index that is not unique, in this order of fields, unless it is there. */
  index(collection: string, fields: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface WriteResult {
  /** Failed because their id existed when they were to be inserted. */
  readonly present: readonly ViewWrite[];
  /** Why the server did not do some of the others, and never will unless they are sent again. */
  readonly refused?: string | undefined;
}

export interface DocumentChange {
  readonly set: Fields;
  /** The numeric field that grows by one. */
  readonly increment: string;
}

/** Nobody knows whether the operation was done, or still will be, or will be twice. */
export class LostAnswerError extends Error {
  override readonly name = "LostAnswerError";
}
