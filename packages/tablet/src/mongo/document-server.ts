/** Concurrent operations of one process on a server, each on a connection of its own; further ones wait. */
export const CONNECTIONS_MAX = 32;

/** Values as MongoDB holds them, by field name. */
export type Fields = Readonly<Record<string, unknown>>;

export type StoredDocument = Fields & { readonly _id: string | number };

/** Ids above `after` and below `below`, both exclusive. */
export interface Range {
  readonly after?: string | number | undefined;
  readonly below?: string | number | undefined;
  /** Restricts to documents with one of these values in the field `kind`. */
  readonly kinds?: readonly string[] | undefined;
}

/**
 * Content of the readable view for one key. Ignored when the view already has a document of the same or a higher
 * number.
 */
export interface ViewWrite {
  readonly id: string;
  /** Number of the originating log entry, stored as `_seq`. */
  readonly seq: number;
  /** null deletes the document. */
  readonly document: Fields | null;
}

/** Operations for reading. */
export interface DocumentReader {
  /** Host and database for messages, never credentials. */
  readonly name: string;
  collections(prefix: string): Promise<string[]>;
  get(collection: string, id: string | number): Promise<StoredDocument | undefined>;
  find(
    collection: string,
    range: Range & { readonly limit: number; readonly descending?: boolean },
  ): Promise<StoredDocument[]>;
}

/**
 * The operations on a MongoDB-compatible server that a tablet needs. A write of one document is atomic, a write of
 * several is not. Acknowledged writes survive every failure that the server is configured to survive, and reads never
 * return data that it may still lose.
 * All operations reject with LostAnswerError when their outcome is unknown. Any other error means that the server
 * refused and will refuse again.
 */
export interface DocumentServer extends DocumentReader {
  /**
   * Runs reads in sequence: none returns older data than an earlier one, even when another member of the server answers
   * it. On servers without sessions this is no stronger than single reads.
   */
  readInOrder<T>(read: (reader: DocumentReader) => Promise<T>): Promise<T>;
  /** Inserts a document; false when the id already exists. */
  insert(collection: string, document: StoredDocument): Promise<boolean>;
  /** Changes a document that has exactly the values of `where`; false when there is none. */
  update(collection: string, id: string, where: Fields, change: DocumentChange): Promise<boolean>;
  /**
   * Replaces and deletes documents, each only when its `_seq` is lower or missing, and inserts missing ones. Returns
   * the writes that were not done; a refusal is no error, because the server may accept the write later.
   */
  write(collection: string, writes: readonly ViewWrite[]): Promise<WriteResult>;
  /** Deletes all documents in the range, in any order. A failure may leave some of them. */
  delete(collection: string, range: Range): Promise<void>;
  /** Creates a non-unique index on the fields in this order, unless it exists. */
  index(collection: string, fields: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

export interface WriteResult {
  /** Inserts that failed because their id existed. */
  readonly present: readonly ViewWrite[];
  /** Reason why the server did not do some of the other writes. They are never done unless they are sent again. */
  readonly refused?: string | undefined;
}

export interface DocumentChange {
  readonly set: Fields;
  /** Name of the numeric field to increment by one. */
  readonly increment: string;
}

/** The outcome is unknown: the operation may be done, may still be done later, or may be done twice. */
export class LostAnswerError extends Error {
  override readonly name = "LostAnswerError";
}
