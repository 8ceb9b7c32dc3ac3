import type { Versioned } from "../documents/checksums.js";
import type { Schema, StoredChange, StoredDocument } from "../documents/schema.js";

/** Called once per stored document during a load. */
export type OnDocument = (table: string, key: string, stored: Versioned) => void;

/** Resolves with all documents as of the call, once they are durable. Rejects when the tablet was lost. */
export type Snapshot = () => Promise<Iterable<StoredDocument>>;

/** A process that wants to lead. `writer` is unique per attempt. Standbys refer callers to `address`. */
export interface Leader {
  readonly writer: string;
  readonly address: string;
}

export interface Claim {
  /** Created with the first claim; never changes. */
  readonly tabletId: string;
  /**
   * Random id, created with the first claim, and anew by each restore of a backup. Two stores with the same tablet id
   * and different incarnations have diverged.
   */
  readonly incarnation: string;
  /** Incarnations from which this one was restored, nearest first; empty without a restore. */
  readonly parentIncarnations: readonly string[];
  readonly generation: number;
}

/** First claim of a tablet that is restored from a backup. */
export interface RestoredClaim extends Claim {
  /** Permits replacing the content of the storage; otherwise only an empty storage is accepted. */
  readonly replace: boolean;
  /**
   * Lowest log number of the restored incarnation, for storages that number their log; the storage may choose a higher
   * one. It exceeds every number that a process of another incarnation may still write.
   */
  readonly firstNumber: number;
}

export interface ClaimOptions {
  /**
   * Schema of the tablet. Collections or files that are no tables of it are ignored. When omitted, everything counts as
   * a table.
   */
  readonly schema?: Schema | undefined;
  /** Starts a restore, which ends with `claimAbove`. Until then all other claims are refused. */
  readonly restore?: RestoredClaim | undefined;
  /**
   * "a tablet" refuses a storage without one with InvalidStateError, so that a lost or mistyped storage is not taken for
   * a new one. "nothing" refuses a storage with a tablet with AlreadyExistsError. By default a missing tablet is made.
   */
  readonly expects?: "a tablet" | "nothing" | undefined;
  /** Aborts the wait for the current leader. */
  readonly signal?: AbortSignal | undefined;
  /** Called with the leader's address while another process leads: at first, and on each change. */
  readonly onStandby?: ((leaderAddress: string) => void) | undefined;
  /** Called on each answer of a database about the lease; see LeaseOptions.onAnswer. */
  readonly onAnswer?: ((takesOverInMs?: number) => void) | undefined;
  /**
   * Called in a standby when the leader's whole state was read and is kept current. A takeover then reads only new log
   * entries.
   */
  readonly onFollowing?: (() => void) | undefined;
  /** Called in a leader, repeatedly, with a problem for operators; called with undefined when it is over. */
  readonly onTrouble?: ((trouble: string | undefined) => void) | undefined;
  /**
   * Called when the stored state differs from the committed one, with a text for operators and the number of affected
   * documents or files.
   */
  readonly onEdited?: ((text: string, documents: number) => void) | undefined;
  /** Called with a harmless irregularity that an operator may want to fix, at most a few times per load. */
  readonly onWarning?: ((warning: string) => void) | undefined;
}

/**
 * The leader's in-memory state, for comparison with the stored one, which others can edit. All methods throw once the
 * leader has ended.
 */
export interface LeaderState {
  size(): number;
  keys(table: string): readonly string[];
  /**
   * Returns a change that stores the current document again, or deletes the key if there is no document. The document
   * is the same object until it changes.
   */
  asIs(table: string, key: string): StoredChange;
  /** Resolves when the present in-memory state is durable. */
  durable(): Promise<void>;
  /** Commits a change that `asIs` returned in the same turn; resolves when it is durable. */
  commit(asIs: StoredChange): Promise<void>;
}

/** Position of a commit in a storage that keeps commits: a journal's number, and a byte in it. */
export interface CommitPlace {
  readonly journal: number;
  readonly at: number;
}

/** A change of a document in a commit that the storage still keeps. */
export interface PastChange {
  readonly commit: CommitPlace;
  /** Undefined in commits of 0.1.0. */
  readonly atMs: number | undefined;
  /** See Conclude; undefined for none, and in commits of 0.1.0. */
  readonly cause: string | undefined;
  /** The document after the change; null means deleted. */
  readonly document: object | null;
}

/** Selects the kept changes of a document. */
export interface PastChangesOf {
  readonly table: string;
  readonly key: string;
  /** Only changes of earlier commits. */
  readonly before?: CommitPlace | undefined;
  /** Ends the reading, which then rejects with the signal's reason. */
  readonly signal: AbortSignal;
}

/** Extent of the commits that a storage keeps. */
export interface KeptCommits {
  /** Time of the oldest kept commit; undefined when no kept commit states its time. */
  readonly sinceMs: number | undefined;
  /** True when all commits since the tablet was made are kept. */
  readonly isComplete: boolean;
}

/**
 * Durable storage of a tablet. Call order: claim, load, then commits and claimAbove one at a time, renew at any time,
 * close. Every adapter must pass `storageContract`.
 */
export interface TabletStorage {
  /** Maximum size of a commit, if limited. */
  readonly commitSizeBytesMax?: number;
  /** Number of the last log entry, if the storage numbers entries. Valid only after the claim. */
  readonly logNumber?: number;
  /** Number of documents and log entries read between claim and serving; undefined for a storage without standbys. */
  readonly documentsRead?: number;
  /**
   * Durably claims the next generation; from then on commits of older claims fail. A storage with a lease first waits
   * until the current leader hands it over or stops renewing it.
   */
  claim(leader: Leader, options?: ClaimOptions): Promise<Claim>;
  /**
   * Calls back once per stored document, in any order, with plain JSON values. Throws InvalidStateError, possibly only
   * at the end, when the stored state is incomplete or damaged; the documents passed so far are then invalid.
   * `snapshot` gives the storage access to the caller's documents, so that it need not keep its own copy. It may be
   * called from the first commit or renewal on.
   */
  load(onDocument: OnDocument, snapshot?: Snapshot): Promise<void>;
  /**
   * Resolves when all changes are durable. Throws FencedError when a newer claim exists; then none of the changes takes
   * effect.
   */
  commit(changes: readonly StoredChange[]): Promise<void>;
  /**
   * Proves that this claim is still the newest. Throws FencedError when it is not, and InvalidStateError when the
   * stored state was deleted or replaced.
   */
  renew(): Promise<void>;
  /**
   * Claims a new generation above the given number and the present one, and resolves with it. Throws FencedError when a
   * newer claim exists. Allowed only after the load.
   */
  claimAbove(generation: number): Promise<number>;
  /**
   * Starts periodic comparisons of the stored state with the committed one, and repairs differences. Allowed only after
   * the load.
   */
  keepChecked?(state: LeaderState): void;
  /**
   * Calls back with each kept change of a document, oldest first. Rejects with ResourceExhaustedError while another call
   * reads. Absent in a storage that keeps no commits. Allowed only after the load.
   */
  pastChanges?(of: PastChangesOf, onChange: (change: PastChange) => void): Promise<KeptCommits>;
  /**
   * Throws UnavailableError when the lease may have expired, so that another process may lead. Absent in a storage that
   * two processes cannot open at once.
   */
  checkLease?(): void;
  /** Returns the time until `checkLease` throws unless the lease is renewed; negative once it throws. */
  leaseLeftMs?(): number;
  /** Closes the storage. With `handOver` it frees the lease, so that the next leader need not wait for it to expire. */
  close(options: { readonly handOver: boolean }): Promise<void>;
}

/** A record of history, stored and listed by key. */
export interface LogRecord {
  readonly key: string;
  readonly text: string;
}

export interface RecordRange {
  /** Common prefix of the keys. Records are ordered by the rest of the key. */
  readonly prefix: string;
  /** Only records with a higher key are returned. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** True returns the highest keys first. */
  readonly descending?: boolean | undefined;
}

/**
 * An append-only log of lines in named streams, and of records by key. It holds history that must not occupy the
 * tablet's memory.
 */
export interface EventLog {
  /** Appends lines; resolves once they are durable, with the index of the next line. */
  append(stream: string, lines: readonly string[]): Promise<number>;
  /**
   * Returns lines from an index on, or from the first kept line if that is higher. `next` is the index to continue
   * from. An unknown stream is empty.
   */
  read(
    stream: string,
    options: { readonly from: number; readonly limit: number },
  ): Promise<{ lines: string[]; next: number }>;
  /** Returns the index of the first kept line and that of the next line; they are equal when there are no lines. */
  bounds(stream: string): Promise<{ readonly first: number; readonly next: number }>;
  /**
   * Removes the lines below an index; the last few of these lines may stay. Never removes the stream's last line.
   * Remaining lines keep their indexes.
   */
  trim(stream: string, below: number): Promise<void>;
  /** Removes the stream. A later append starts at index 0 again. */
  drop(stream: string): Promise<void>;
  /** Resolves when all records are durable. A record whose key exists is left unchanged. */
  addRecords(records: readonly LogRecord[]): Promise<void>;
  readRecords(range: RecordRange): Promise<LogRecord[]>;
  /** Resolves when all these records are removed. */
  removeRecords(keys: readonly string[]): Promise<void>;
  close(): Promise<void>;
}
