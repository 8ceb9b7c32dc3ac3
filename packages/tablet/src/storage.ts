import type { BackupDocument } from "./backup/backup-file.js";
import type { Versioned } from "./checksums.js";
import type { Change, Schema } from "./schema.js";

/** A change with the data that a storage needs to maintain the checksums of the whole state. */
export interface StoredChange extends Change {
  /** Version of its table's shape. */
  readonly version: number;
  /** Former document, null for none. Must equal the stored one. */
  readonly previous: Versioned | null;
}

/** Called with each stored document. */
export type OnDocument = (table: string, key: string, stored: Versioned) => void;

/** Resolves with all documents as of the call, once they are durable. Rejects when the tablet was lost. */
export type Snapshot = () => Promise<Iterable<BackupDocument>>;

/** A process that wants to lead. Each attempt has a new writer id; standbys refer callers to the address. */
export interface Leader {
  readonly writer: string;
  readonly address: string;
}

export interface Claim {
  /** Created at the tablet's first claim and never changed. */
  readonly tabletId: string;
  /**
   * Random id of this life of the tablet, created at its first claim and anew by each restore of a backup. Two stores
   * with one tablet id and different incarnations have diverged.
   */
  readonly incarnation: string;
  /** Incarnations from which this one was restored, nearest first; empty when it was never restored. */
  readonly parentIncarnations: readonly string[];
  readonly generation: number;
}

/** The complete first claim of a tablet that is restored from a backup. */
export interface RestoredClaim extends Claim {
  /** Permits replacing the content of the storage; otherwise a storage that is not empty is refused. */
  readonly replace: boolean;
  /**
   * Lowest log number of the restored incarnation, in a storage that numbers its log; the storage may choose a higher
   * one. It exceeds every number that a process of another incarnation may still write.
   */
  readonly firstNumber: number;
}

export interface ClaimOptions {
  /** Schema of the tablet; everything else in the storage is foreign. When absent, everything counts as a table. */
  readonly schema?: Schema | undefined;
  /** Begins a restore, which ends with `claimAbove`; until then every other claim is refused. */
  readonly restore?: RestoredClaim | undefined;
  /** Aborts the wait for a live leader. */
  readonly signal?: AbortSignal | undefined;
  /** Called while another process leads, with its address: once at first, then on each change. */
  readonly onStandby?: ((leaderAddress: string) => void) | undefined;
  /** Called on each answer of a database about its lease. */
  readonly onAnswer?: ((takesOverInMs?: number) => void) | undefined;
  /**
   * Called while another process leads, when its state was read and is followed; a takeover then reads only the rest.
   */
  readonly onFollowing?: (() => void) | undefined;
  /**
   * Called while this process leads, with a problem for operators, at first and repeatedly; with undefined when it is
   * over.
   */
  readonly onTrouble?: ((trouble: string | undefined) => void) | undefined;
  /**
   * Called with a text for operators and the number of documents or files concerned when the stored state differs from
   * the committed one.
   */
  readonly onEdited?: ((text: string, documents: number) => void) | undefined;
  /** Called, at most a few times per load, with a harmless irregularity that an operator may want to fix. */
  readonly onWarning?: ((warning: string) => void) | undefined;
}

/**
 * The leader's state, for a storage to compare with its stored data, which others can edit. All methods throw once the
 * leader has ended.
 */
export interface LeaderState {
  size(): number;
  keys(table: string): readonly string[];
  /**
   * Returns a change that keeps a document, or its absence, as it is now; the document is the same object until it
   * changes.
   */
  asIs(table: string, key: string): StoredChange;
  /** Resolves when the present state is durable. */
  durable(): Promise<void>;
  /** Commits a change of `asIs` made at this moment; resolves when it is durable. */
  commit(asIs: StoredChange): Promise<void>;
}

/**
 * Durable storage of a tablet's state. Calls come in this order: claim, load, then commits and claims above a number,
 * one at a time, renewals at any time, close. Every adapter must pass `storageContract`.
 */
export interface TabletStorage {
  /** Limit of a commit, if there is one. */
  readonly commitSizeBytesMax?: number;
  /** Number of the last log entry, if the storage numbers them. Valid only after the claim. */
  readonly logNumber?: number;
  /**
   * Number of documents and log entries read between claim and serving; undefined when the storage cannot be followed
   * in advance.
   */
  readonly documentsRead?: number;
  /**
   * Durably takes the next generation; from then on no older claim can commit. A storage with a lease first waits until
   * the leader has handed it over or stops renewing it.
   */
  claim(leader: Leader, options?: ClaimOptions): Promise<Claim>;
  /**
   * Calls back once per stored document, in any order, with plain JSON values. Throws InvalidStateError, at the end at
   * the latest, when the stored state is incomplete or damaged; the documents passed so far are then invalid.
   * `snapshot` lends the storage the documents in the caller's memory, so that it need not keep them; it may be called
   * from the first commit or renewal on.
   */
  load(onDocument: OnDocument, snapshot?: Snapshot): Promise<void>;
  /**
   * Resolves when all changes are durable. Throws FencedError when a newer claim exists; then none of them is visible.
   */
  commit(changes: readonly StoredChange[]): Promise<void>;
  /**
   * Proves that this claim still leads. Throws FencedError when it does not, InvalidStateError when the stored state
   * was deleted or replaced meanwhile.
   */
  renew(): Promise<void>;
  /**
   * Proves durably that this claim still leads, and takes a generation above that number and above its own; resolves
   * with it. Throws FencedError when a newer claim exists. Allowed only after the load.
   */
  claimAbove(generation: number): Promise<number>;
  /**
   * Starts checking repeatedly that the stored state equals the committed one, and repairs differences. Allowed only
   * after the load.
   */
  keepChecked?(state: LeaderState): void;
  /**
   * Throws UnavailableError when another process may already lead. Absent when two processes cannot open the storage at
   * once.
   */
  checkLease?(): void;
  /**
   * Returns the time until `checkLease` throws unless the lease is renewed; negative once it throws. Absent together
   * with `checkLease`.
   */
  leaseLeftMs?(): number;
  /** `handOver` frees the lease, so that the next leader need not wait for it to expire. */
  close(options: { readonly handOver: boolean }): Promise<void>;
}

/** A record of history, found by its key and in key order. */
export interface LogRecord {
  readonly key: string;
  readonly text: string;
}

export interface RecordRange {
  /** Common prefix of the keys; records come in the order of the rest. */
  readonly prefix: string;
  /** Only keys above this one are returned. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** Returns the highest keys first. */
  readonly descending?: boolean | undefined;
}

/**
 * An append-only log of lines in named streams, and of records by key, for history that must not occupy a tablet's
 * memory.
 */
export interface EventLog {
  /** Resolves once the lines are durable, with the index that the next line will have. */
  append(stream: string, lines: readonly string[]): Promise<number>;
  /**
   * Returns lines from that index on, or from the first one kept. `next` is the index to continue from, one above the
   * last line returned. An unknown stream is empty.
   */
  read(
    stream: string,
    options: { readonly from: number; readonly limit: number },
  ): Promise<{ lines: string[]; next: number }>;
  /**
   * Returns the index of the first line kept, and the index that the next line will have; both are equal when there is
   * none.
   */
  bounds(stream: string): Promise<{ readonly first: number; readonly next: number }>;
  /**
   * Removes lines below that index, but perhaps not the last few of them and never the last line; the others keep their
   * indexes.
   */
  trim(stream: string, below: number): Promise<void>;
  /** Removes the stream. A later append starts again at index 0. */
  drop(stream: string): Promise<void>;
  /** Resolves when all records are durable. A record whose key exists is not changed. */
  addRecords(records: readonly LogRecord[]): Promise<void>;
  readRecords(range: RecordRange): Promise<LogRecord[]>;
  /** Resolves when none of the records exists any more. */
  removeRecords(keys: readonly string[]): Promise<void>;
  close(): Promise<void>;
}
