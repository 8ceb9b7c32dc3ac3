import type { BackupDocument } from "./backup/backup-file.js";
import type { Versioned } from "./checksums.js";
import type { Change, Schema } from "./schema.js";

/** A change as a storage gets it: with what it needs to keep the checksums of the whole state. */
export interface StoredChange extends Change {
  /** The version of its table's shape that the document has. */
  readonly version: number;
  /** What was there before, null: nothing. It must be what the storage holds. */
  readonly previous: Versioned | null;
}

/** Called with each stored document. */
export type OnDocument = (table: string, key: string, stored: Versioned) => void;

/** Resolves with all documents of the moment of the call, once they are durable. Rejects when the tablet was lost. */
export type Snapshot = () => Promise<Iterable<BackupDocument>>;

/** Who wants to lead. A writer id is new with every attempt; the address is where a standby sends callers. */
export interface Leader {
  readonly writer: string;
  readonly address: string;
}

export interface Claim {
  /** Made at the tablet's first claim and the same ever after. */
  readonly tabletId: string;
  /**
   * Which life of the tablet this is: random, made at its first claim, and made anew by each restore of a backup. Two
   * stores with one tablet id and different incarnations went different ways.
   */
  readonly incarnation: string;
  /** The incarnations that this one was restored from, the nearest first; empty when it was never restored. */
  readonly parentIncarnations: readonly string[];
  readonly generation: number;
}

/** The first claim of a tablet that is restored from a backup, with all that it is to have. */
export interface RestoredClaim extends Claim {
  /** Whatever the storage holds is replaced; else a storage that is not empty is refused. */
  readonly replace: boolean;
  /**
   * Where a storage numbers its log, the numbers of the restored incarnation begin here, or higher where it has higher
   * ones: above all that a process with another incarnation may still write.
   */
  readonly firstNumber: number;
}

export interface ClaimOptions {
  /** Of the tablet's tables. What else there is beside them is somebody else's. Absent: all there is counts as a table. */
  readonly schema?: Schema | undefined;
  /** Begins a restore, which ends with `claimAbove`; until then, every other claim is refused. */
  readonly restore?: RestoredClaim | undefined;
  /** Ends the wait for a leader that still lives. */
  readonly signal?: AbortSignal | undefined;
  /** Called while another process leads, with its address: once at first, then whenever it is another one. */
  readonly onStandby?: ((leaderAddress: string) => void) | undefined;
  /** Called whenever a database with leases has answered a question of the lease. */
  readonly onAnswer?: ((takesOverInMs?: number) => void) | undefined;
  /** Called while another process leads, when its state has been read and is followed: a takeover reads only the rest. */
  readonly onFollowing?: (() => void) | undefined;
  /** Called while this process leads, with what an operator should look at, at first and now and then; undefined: it is over. */
  readonly onTrouble?: ((trouble: string | undefined) => void) | undefined;
  /** Called with a text for operators and how many documents or files it is about, when what is stored is not what was committed. */
  readonly onEdited?: ((text: string, documents: number) => void) | undefined;
  /** Called, a few times a load at most, with what an operator may want to put in order; nothing is in danger. */
  readonly onWarning?: ((warning: string) => void) | undefined;
}

/** The leader's state, as a storage compares it with what others can edit. Everything throws once the leader has ended. */
export interface LeaderState {
  /** Documents in all tables. */
  size(): number;
  /** The keys of the documents of a table. */
  keys(table: string): readonly string[];
  /** A change that leaves a document, or that there is none, as it is now; the document is the same object until it changes. */
  asIs(table: string, key: string): StoredChange;
  /** Resolves when everything of this moment is durable. */
  durable(): Promise<void>;
  /** Commits such a change of this moment; resolves when it is durable. */
  commit(asIs: StoredChange): Promise<void>;
}

/**
 * Where a tablet's state survives. Calls come in this order: claim, load, then commits one at a time (never two at
 * once), claims above a number likewise, renewals at any time, close. Every adapter is held to `storageContract`.
 */
export interface TabletStorage {
  /** The largest commit that it can take, when that is limited. */
  readonly commitSizeBytesMax?: number;
  /** The number of the last log entry, where the storage numbers them. Only once claimed. */
  readonly logNumber?: number;
  /** How many documents and log entries had to be read between claim and serving, where that depends on following. */
  readonly documentsRead?: number;
  /**
   * Durably takes the next generation; from then on no older claim can commit. A storage with a lease first waits until
   * the leader has handed it over or no longer renews it.
   */
  claim(leader: Leader, options?: ClaimOptions): Promise<Claim>;
  /**
   * Calls back once per stored document, in any order. Documents are plain JSON values. InvalidStateError, at the end at
   * the latest, when what is stored is not whole: then nothing that came is to be believed. `snapshot` lends a storage the
   * documents in the caller's memory, so that it need not keep them: it may be called from the first commit or renewal on.
   */
  load(onDocument: OnDocument, snapshot?: Snapshot): Promise<void>;
  /** Resolves when all changes are durable. FencedError when a newer claim exists: then nothing of them is visible. */
  commit(changes: readonly StoredChange[]): Promise<void>;
  /**
   * Proves that this claim still leads. FencedError when it does not; InvalidStateError when what is stored has been
   * deleted or replaced meanwhile.
   */
  renew(): Promise<void>;
  /**
   * Proves, durably, that this claim still leads, and takes a generation above that number and above its own, which it
   * resolves with. FencedError when a newer claim exists. Only once loaded.
   */
  claimAbove(generation: number): Promise<number>;
  /**
   * From now on checks now and then that what is stored is what was committed, and stores anew what is not. Only once
   * loaded.
   */
  keepChecked?(state: LeaderState): void;
  /**
   * Throws UnavailableError while another process may lead already, for all that this one knows. Where two processes
   * cannot have the storage at once it is left out.
   */
  checkLease?(): void;
  /** How long `checkLease` will not throw, unless the lease is renewed; negative once it throws. Left out with it. */
  leaseLeftMs?(): number;
  /** `handOver`: the next leader need not wait for a lease to run out. */
  close(options: { readonly handOver: boolean }): Promise<void>;
}

/** Something of history that is found by its key, and in the order of keys. */
export interface LogRecord {
  readonly key: string;
  readonly text: string;
}

export interface RecordRange {
  /** With what their keys begin: they come in the order of what follows it. */
  readonly prefix: string;
  /** Only keys above this one. */
  readonly after?: string | undefined;
  readonly limit: number;
  /** From the highest key down. */
  readonly descending?: boolean | undefined;
}

/** An append-only log of lines in named streams, and records by key, for history that must not live in a tablet's memory. */
export interface EventLog {
  /** Resolves, once the lines are durable, with the index that the next line will have. */
  append(stream: string, lines: readonly string[]): Promise<number>;
  /**
   * Lines from that index on, or from the first that is kept. `next` is where to read on, so the last of them is the one
   * before; an unknown stream is empty.
   */
  read(
    stream: string,
    options: { readonly from: number; readonly limit: number },
  ): Promise<{ lines: string[]; next: number }>;
  /** The index of the first line that is kept, and the one that the next line will have; the same when there is none. */
  bounds(stream: string): Promise<{ readonly first: number; readonly next: number }>;
  /** Forgets lines below that index, perhaps not the last few of them, and never the last line: the others keep theirs. */
  trim(stream: string, below: number): Promise<void>;
  /** Forgets the stream. A later append starts again at index 0. */
  drop(stream: string): Promise<void>;
  /** Resolves when all of them are durable. One whose key is there stays as it is. */
  addRecords(records: readonly LogRecord[]): Promise<void>;
  readRecords(range: RecordRange): Promise<LogRecord[]>;
  /** Resolves when none of them is there any more. */
  removeRecords(keys: readonly string[]): Promise<void>;
  close(): Promise<void>;
}
