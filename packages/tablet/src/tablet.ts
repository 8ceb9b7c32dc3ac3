import { randomUUID } from "node:crypto";
import {
  DomainError,
  InvalidArgumentError,
  messageOf,
  ResourceExhaustedError,
  servedElsewhere,
  systemClock,
  UnavailableError,
} from "@diskmesh/domain";
import { backupPieces } from "./backup/backup-file.js";
import { MemoryTables } from "./documents/memory-tables.js";
import type { Conclude, Schema, StoredChange, StoredDocument, Tables, Transaction } from "./documents/schema.js";
import { addToBatch, type Batch, type CommitListener, newBatch } from "./storage/batch.js";
import { lateAnswers, type TabletClock } from "./storage/clock.js";
import { commitSized } from "./storage/commit-sized.js";
import { leaderState } from "./storage/leader-state.js";
import { loadAll } from "./storage/load-document.js";
import { OneAtATime } from "./storage/one-at-a-time.js";
import type { Claim, ClaimOptions, KeptCommits, LeaderState, TabletStorage } from "./storage/storage.js";
import { DEFAULT_TABLET_LIMITS, type TabletLimits } from "./tablet-limits.js";

/** Options of a tablet. Those of ClaimOptions control the wait until this process may lead. */
export interface TabletOptions<S extends Schema> extends Omit<ClaimOptions, "schema" | "restore"> {
  /** Name for messages, e.g. "registry". */
  readonly name: string;
  readonly schema: S;
  readonly storage: TabletStorage;
  /** Address of this leader, to which standbys refer callers. */
  readonly address: string;
  readonly limits?: Partial<TabletLimits>;
  readonly clock?: TabletClock;
}

/** Maximum generation: far above every real one, and far below the integers that doubles cannot represent exactly. */
const GENERATION_MAX = 2 ** 52;

/** The leader's state in memory. Callers see a change only once it is durable. */
export class Tablet<S extends Schema> implements AsyncDisposable {
  readonly id: string;
  /** Random id, created with the tablet and anew by each restore of a backup. */
  readonly incarnation: string;
  /** Incarnations from which this one was restored, nearest first; empty without a restore. */
  readonly parentIncarnations: readonly string[];
  /** Resolves, never rejects, with the reason when this process may no longer lead. */
  readonly lost: Promise<Error>;
  readonly #name: string;
  readonly #storage: TabletStorage;
  readonly #limits: TabletLimits;
  readonly #clock: TabletClock;
  readonly #listeners = new Set<CommitListener>();
  /** Batches in order. Only the first one can be sealed. */
  readonly #batches: Batch[] = [];
  #memory: MemoryTables<S>;
  #conclude: Conclude<S> | undefined;
  #generation: number;
  readonly #claims = new OneAtATime();
  #pendingSizeBytes = 0;
  #pendingTransactions = 0;
  #committing = false;
  /** Set when new work is refused: the tablet is lost or closed. */
  #ended: Error | undefined;
  #isLost = false;
  #closing: Promise<void> | undefined;
  #documentsRead: number | undefined;
  #cancelRenewal: () => void = () => {};
  #resolveLost: (reason: Error) => void = () => {};

  private constructor(options: TabletOptions<S>, claim: Claim, memory: MemoryTables<S>) {
    this.id = claim.tabletId;
    this.incarnation = claim.incarnation;
    this.parentIncarnations = claim.parentIncarnations;
    this.#generation = claim.generation;
    this.#name = options.name;
    this.#storage = options.storage;
    const limits = { ...DEFAULT_TABLET_LIMITS, ...options.limits };
    const commitSizeBytesMax = options.storage.commitSizeBytesMax ?? Number.POSITIVE_INFINITY;
    this.#limits = { ...limits, commitSizeBytes: Math.min(limits.commitSizeBytes, commitSizeBytesMax) };
    this.#clock = options.clock ?? systemClock;
    this.#memory = memory;
    this.lost = new Promise((resolve) => {
      this.#resolveLost = resolve;
    });
    this.#scheduleRenewal();
  }

  /**
   * Waits until this process may lead, claims the next generation durably, and loads all documents. Closes the storage
   * if that fails.
   */
  static async open<S extends Schema>(options: TabletOptions<S>): Promise<Tablet<S>> {
    const { name, schema, storage, address, signal } = options;
    const memory = new MemoryTables(schema);
    let tablet: Tablet<S> | undefined;
    try {
      const claim = await storage.claim({ writer: randomUUID(), address }, options);
      // Created before the load, because the tablet renews the lease and the load may take longer than a lease.
      tablet = new Tablet(options, claim, memory);
      const opened = tablet;
      const upgrades = await loadAll(memory, name, storage, () => opened.#durableDocuments());
      await tablet.#storeUpgrades(upgrades);
      tablet.#documentsRead = storage.documentsRead;
      tablet.#refuseWhenEnded();
      signal?.throwIfAborted();
      storage.keepChecked?.(tablet.#leaderState());
      return tablet;
    } catch (error) {
      if (tablet !== undefined) tablet.#stop(new UnavailableError(`tablet ${name} could not be opened`));
      await storage.close({ handOver: true }).catch(() => {});
      throw error;
    }
  }

  /** Stores upgraded documents. An interruption does no harm, because each document has its own version. */
  async #storeUpgrades(upgrades: readonly StoredChange[]): Promise<void> {
    for (const changes of commitSized(upgrades, this.#limits.commitSizeBytes)) {
      this.#refuseWhenEnded();
      await this.#commit(changes);
    }
  }

  /**
   * Runs `fn` synchronously; resolves with its result when its changes are durable. When `fn` throws, its changes are
   * undone, and the promise rejects with the error once everything that `fn` may have read is durable. `note` is passed
   * to the function of `concludeWith`.
   */
  async transact<T>(fn: (tx: Transaction<S>) => T, note?: unknown): Promise<T> {
    this.#refuseWhenEnded();
    this.#refuseWhenFull();
    let result: T;
    try {
      const limits = { sizeBytesMax: this.#limits.commitSizeBytes };
      const transacted = this.#memory.transact(fn, limits, this.#conclude && { run: this.#conclude, note });
      // A commit itself detects when this process no longer leads; a transaction without changes needs a check of the
      // lease.
      if (transacted.changes.length > 0) this.#enqueue(transacted.changes, transacted.sizeBytes);
      else this.#storage.checkLease?.();
      result = transacted.result;
    } catch (error) {
      this.#storage.checkLease?.();
      await this.#barrier();
      throw error;
    }
    await this.#barrier();
    return result;
  }

  /**
   * Runs `fn` synchronously; resolves or rejects when everything that `fn` may have read is durable. Rejects with
   * UnavailableError when another process may already lead, because memory may then be outdated.
   */
  async read<T>(fn: (tables: Tables<S>) => T): Promise<T> {
    this.#refuseWhenEnded();
    let result: T;
    try {
      result = fn(this.#memory.tables);
    } catch (error) {
      this.#storage.checkLease?.();
      await this.#barrier();
      throw error;
    }
    // Checks the lease after `fn` has run. If it is valid then, no other process has acknowledged a change that `fn`
    // missed.
    this.#storage.checkLease?.();
    await this.#barrier();
    return result;
  }

  /**
   * Reads memory, including changes that are not durable yet. The caller must not act on the result before a later
   * transaction or read has resolved. Throws like `checkMayAct`.
   */
  ahead<T>(fn: (tables: Tables<S>) => T): T {
    this.checkMayAct();
    return fn(this.#memory.tables);
  }

  /** Sets the function that runs at the end of each transaction with changes. */
  concludeWith(conclude: Conclude<S>): void {
    this.#conclude = conclude;
  }

  /** Throws UnavailableError when another process may already lead, so that this process must send no order. */
  checkMayAct(): void {
    this.#refuseWhenEnded();
    this.#storage.checkLease?.();
  }

  /** Generation of this leader: claimed at its start, higher after `claimAbove`. */
  get generation(): number {
    return this.#generation;
  }

  /**
   * Claims a generation above the given number and the present one, and resolves with it. Rejects with FencedError when
   * another process leads; the tablet is then lost. Calls are queued.
   */
  async claimAbove(generation: number): Promise<number> {
    if (!Number.isSafeInteger(generation) || generation < 0 || generation > GENERATION_MAX)
      throw new InvalidArgumentError(`generation ${generation}: it must be a whole number from 0 to ${GENERATION_MAX}`);
    // Serialized, because concurrent claims could be answered in another order, and the generation would decrease.
    return this.#claims.run(async () => {
      this.#refuseWhenEnded();
      try {
        this.#generation = await this.#storage.claimAbove(generation);
      } catch (error) {
        if (this.#ended === undefined) this.#lose(error, { ofCommit: false });
      }
      this.#refuseWhenEnded();
      return this.#generation;
    });
  }

  /** Yields a backup of the present state in pieces of text, once that state is durable. */
  async *backup(nowMs: number): AsyncGenerator<string> {
    const { id: tabletId, incarnation, parentIncarnations, generation } = this;
    const { logNumber } = this.#storage;
    const documents = await this.#durableDocuments();
    // Proves that no other process has led since the claim.
    await this.#storage.renew();
    const header = {
      tabletName: this.#name,
      tabletId,
      incarnation,
      parentIncarnations,
      generation,
      logNumber,
      createdAtMs: nowMs,
    };
    yield* backupPieces(header, documents);
  }

  /** See TabletStorage. Resolves with undefined when the storage keeps no commits. */
  async pastChanges(...args: Parameters<NonNullable<TabletStorage["pastChanges"]>>): Promise<KeptCommits | undefined> {
    this.#refuseWhenEnded();
    return this.#storage.pastChanges?.(...args);
  }

  /** Returns the present documents once they are durable. */
  async #durableDocuments(): Promise<Iterable<StoredDocument>> {
    this.#refuseWhenEnded();
    const documents = this.#memory.snapshot();
    await this.#barrier();
    return documents;
  }

  /** Time for which this leader may act without renewing the lease; undefined when no other process can lead. */
  get leaseLeftMs(): number | undefined {
    return this.#storage.leaseLeftMs?.();
  }

  /** Number of documents read between claim and serving; undefined for a storage without standbys. */
  get documentsRead(): number | undefined {
    return this.#documentsRead;
  }

  /** Calls back after each durable commit, in order, with its changes. Returns a function that removes the listener. */
  watch(listener: CommitListener): () => void {
    // Wrapped, so that one function can be registered twice and each registration is removed separately.
    const entry: CommitListener = (changes, commit) => listener(changes, commit);
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  /** Refuses new work, waits until all accepted transactions are durable, and frees the lease. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#stop(servedElsewhere(`tablet ${this.#name} is closed`));
    // Callers of pending transactions get the errors themselves.
    await this.#barrier().catch(() => {});
    this.#listeners.clear();
    await this.#storage.close({ handOver: !this.#isLost });
  }

  #stop(reason: Error): void {
    this.#ended ??= reason;
    this.#cancelRenewal();
  }

  #leaderState(): LeaderState {
    const current = (): MemoryTables<S> => {
      this.#refuseWhenEnded();
      return this.#memory;
    };
    return leaderState(current, () => this.#barrier(), this.#enqueue.bind(this));
  }

  #refuseWhenEnded(): void {
    if (this.#ended !== undefined) throw this.#ended;
  }

  #refuseWhenFull(): void {
    if (this.#pendingTransactions >= this.#limits.pendingTransactions)
      throw new ResourceExhaustedError(
        `tablet ${this.#name}: ${this.#pendingTransactions} transactions wait for the storage, which is the limit; try again later`,
      );
    if (this.#pendingSizeBytes >= this.#limits.pendingSizeBytes)
      throw new ResourceExhaustedError(
        `tablet ${this.#name}: ${this.#pendingSizeBytes} bytes wait for the storage, the limit is ${this.#limits.pendingSizeBytes}; try again later`,
      );
  }

  /**
   * Resolves when all accepted transactions are durable. Batches commit in order, so the last one covers all others.
   */
  #barrier(): Promise<void> {
    return this.#batches.at(-1)?.durable ?? Promise.resolve();
  }

  #enqueue(changes: readonly StoredChange[], sizeBytes: number): void {
    let batch = this.#batches.at(-1);
    if (batch === undefined || batch.sealed || batch.sizeBytes + sizeBytes > this.#limits.commitSizeBytes) {
      batch = newBatch();
      this.#batches.push(batch);
    }
    addToBatch(batch, changes, sizeBytes);
    this.#pendingSizeBytes += sizeBytes;
    this.#pendingTransactions++;
    if (this.#committing) return;
    this.#committing = true;
    // Deferred to the end of the turn, so that one commit covers all calls that arrived together.
    this.#clock.afterTurn(() => void this.#commitAll());
  }

  async #commitAll(): Promise<void> {
    for (let batch = this.#batches[0]; batch !== undefined; batch = this.#batches[0]) {
      batch.sealed = true;
      const changes = Object.freeze([...batch.changes.values()]);
      const startedMs = performance.now();
      try {
        await this.#commit(changes);
      } catch (error) {
        this.#lose(error, { ofCommit: true });
        return;
      }
      // A renewal may have found that another process leads. The transactions of this batch are then rejected already.
      if (this.#batches[0] !== batch) return;
      this.#batches.shift();
      this.#pendingSizeBytes -= batch.sizeBytes;
      this.#pendingTransactions -= batch.transactions;
      this.#notify(changes, { ...batch, durationMs: performance.now() - startedMs });
      batch.resolve();
    }
    this.#committing = false;
  }

  async #commit(changes: readonly StoredChange[]): Promise<void> {
    const { commitTimeoutMs } = this.#limits;
    let cancel: () => void = () => {};
    const timeout = new Promise<never>((_, reject) => {
      // A busy event loop runs the timer before it delivers an answer that has arrived. So late answers are delivered
      // first.
      const onTimeout = (): Promise<void> =>
        lateAnswers().then(() => reject(new Error(`a commit took longer than ${commitTimeoutMs} ms`)));
      cancel = this.#clock.after(commitTimeoutMs, () => void onTimeout());
    });
    try {
      await Promise.race([this.#storage.commit(changes), timeout]);
    } finally {
      cancel();
    }
  }

  #notify(changes: readonly StoredChange[], commit: Parameters<CommitListener>[1]): void {
    for (const listener of [...this.#listeners]) {
      try {
        listener(changes, commit);
      } catch (error) {
        process.emitWarning(`a listener of tablet ${this.#name} threw: ${messageOf(error)}`, "TabletListenerWarning");
      }
    }
  }

  #scheduleRenewal(): void {
    this.#cancelRenewal = this.#clock.after(this.#limits.renewIntervalMs, () => void this.#renew());
  }

  async #renew(): Promise<void> {
    try {
      await this.#storage.renew();
      if (this.#ended === undefined) this.#scheduleRenewal();
    } catch (error) {
      if (this.#ended === undefined) this.#lose(error, { ofCommit: false });
    }
  }

  /** Ends the tablet. Its memory is ahead of the durable state and must not be read any more. */
  #lose(cause: unknown, { ofCommit }: { ofCommit: boolean }): void {
    if (this.#isLost) return;
    this.#isLost = true;
    const reason =
      cause instanceof DomainError
        ? cause
        : new UnavailableError(`tablet ${this.#name} lost its storage: ${messageOf(cause)}`, { cause });
    this.#ended = reason;
    this.#cancelRenewal();
    for (const batch of this.#batches.splice(0))
      batch.reject(batch.sealed ? this.#fateOfSealed(cause, ofCommit) : reason);
    this.#memory = new MemoryTables({} as S);
    this.#listeners.clear();
    this.#resolveLost(reason);
  }

  /**
   * Returns the error for the transactions of the running commit. Only the commit's own error can say that nothing was
   * stored.
   */
  #fateOfSealed(cause: unknown, ofCommit: boolean): Error {
    if (ofCommit && cause instanceof DomainError) return cause;
    const message = `tablet ${this.#name}: whether the change is durable is not known: ${messageOf(cause)}`;
    return new UnavailableError(message, { cause, outcome: "unknown" });
  }
}
