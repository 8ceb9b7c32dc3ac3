/** Maximum number of concurrent operations of a process, each on its own connection; further ones wait. */
export const CONNECTIONS_MAX = 32;

/** Fields of a MongoDB document by name. */
export type Fields = Readonly<Record<string, unknown>>;

export type StoredDocument = Fields & { readonly _id: string | number };

/** Ids above `after` and below `below`, both exclusive. */
export interface Range {
  readonly after?: string | number | undefined;
  readonly below?: string | number | undefined;
  /** Restricts to documents with one of these values in the field `kind`. */
  readonly kinds?: readonly string[] | undefined;
}

/** A write to the readable view. The server ignores it when the view's document has the same or a higher number. */
export interface ViewWrite {
  readonly id: string;
  /** Number of the log entry with the change; stored as `_seq`. */
  readonly seq: number;
  /** null deletes the document. */
  readonly document: Fields | null;
}

/** Operations for reading. */
export interface DocumentReader {
  /** Host and database, for messages; never contains credentials. */
  readonly name: string;
  collections(prefix: string): Promise<string[]>;
  get(collection: string, id: string | number): Promise<StoredDocument | undefined>;
  find(
    collection: string,
    range: Range & { readonly limit: number; readonly descending?: boolean },
  ): Promise<StoredDocument[]>;
}

/**
 * Operations of a MongoDB-compatible server that a tablet needs. A write of one document is atomic, a write of several
 * is not. Acknowledged writes survive every failure that the server is configured to survive, and reads never return
 * data that may still be rolled back.
 *
 * Operations reject with LostAnswerError when their outcome is unknown. Any other error means that the server refused
 * the operation and would refuse it again.
 */
export interface DocumentServer extends DocumentReader {
  /**
   * Runs reads in sequence: no read returns older data than the read before it, even when another member of a replica
   * set answers. On servers without sessions the reads are independent.
   */
  readInOrder<T>(read: (reader: DocumentReader) => Promise<T>): Promise<T>;
  /** Inserts a document; resolves with false when the id exists. */
  insert(collection: string, document: StoredDocument): Promise<boolean>;
  /** Changes a document whose fields equal `where`; resolves with false when there is none. */
  update(collection: string, id: string, where: Fields, change: DocumentChange): Promise<boolean>;
  /**
   * Inserts, replaces and deletes documents, each only when the stored `_seq` is lower or missing. Returns the writes
   * that were not done. A refusal is no error, because the server may accept the write later.
   */
  write(collection: string, writes: readonly ViewWrite[]): Promise<WriteResult>;
  /** Deletes all documents in the range, in any order. On failure some of them may remain. */
  delete(collection: string, range: Range): Promise<void>;
  /** Creates a non-unique index on the fields in this order, if it does not exist. */
  index(collection: string, fields: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface WriteResult {
  /** Inserts that failed because the id exists. */
  readonly present: readonly ViewWrite[];
  /**
   * Reason why the server refused some of the other writes; undefined when it refused none. Refused writes take effect
   * only if they are sent again.
   */
  readonly refused?: string | undefined;
}

export interface DocumentChange {
  readonly set: Fields;
  /** Name of the numeric field to increment by one. */
  readonly increment: string;
}

/** Thrown when the outcome of an operation is unknown: it may have happened, may still happen, or may happen twice. */
export class LostAnswerError extends Error {
  override readonly name = "LostAnswerError";
}
