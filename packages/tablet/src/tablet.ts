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
import { type BackupDocument, backupPieces } from "./backup/backup-file.js";
import { addToBatch, type Batch, type CommitListener, newBatch } from "./batch.js";
import { lateAnswers, type TabletClock } from "./clock.js";
import { commitSized } from "./commit-sized.js";
import { leaderState } from "./leader-state.js";
import { loadAll } from "./load-document.js";
import { MemoryTables } from "./memory-tables.js";
import { OneAtATime } from "./one-at-a-time.js";
import type { Conclude, Schema, Tables, Transaction } from "./schema.js";
import type { Claim, ClaimOptions, LeaderState, StoredChange, TabletStorage } from "./storage.js";
import { DEFAULT_TABLET_LIMITS, type TabletLimits } from "./tablet-limits.js";

/** The options of a claim are for waiting until this process may lead. */
export interface TabletOptions<S extends Schema> extends Omit<ClaimOptions, "schema" | "restore"> {
  /** For messages, e.g. "registry". */
  readonly name: string;
  readonly schema: S;
  readonly storage: TabletStorage;
  /** Where this leader can be reached, for standbys to tell callers. */
  readonly address: string;
  readonly limits?: Partial<TabletLimits>;
  readonly clock?: TabletClock;
}

/** Far beyond what claims and restores can reach, and far enough below where numbers lose their last digit. */
const GENERATION_MAX = 2 ** 52;

/** The one leader's state in memory, every change of which is durable before anyone hears of it. */
export class Tablet<S extends Schema> implements AsyncDisposable {
  readonly id: string;
  /** Which life of the tablet this is: made at random with it, and anew by each restore of a backup. */
  readonly incarnation: string;
  /** The incarnations that this one was restored from, the nearest first; empty when it was never restored. */
  readonly parentIncarnations: readonly string[];
  /** Resolves, never rejects, with the reason when this process may no longer lead. */
  readonly lost: Promise<Error>;
  readonly #name: string;
  readonly #storage: TabletStorage;
  readonly #limits: TabletLimits;
  readonly #clock: TabletClock;
  readonly #listeners = new Set<CommitListener>();
  /** In order; only the first may be sealed. */
  readonly #batches: Batch[] = [];
  #memory: MemoryTables<S>;
  #conclude: Conclude<S> | undefined;
  #generation: number;
  readonly #claims = new OneAtATime();
  #pendingSizeBytes = 0;
  #pendingTransactions = 0;
  #committing = false;
  /** Why no new work is taken: lost, or closed. */
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
   * Waits until this process may lead, claims the next generation durably, then loads everything. The storage is closed
   * again when that fails.
   */
  static async open<S extends Schema>(options: TabletOptions<S>): Promise<Tablet<S>> {
    const { name, schema, storage, address, signal } = options;
    const memory = new MemoryTables(schema);
    let tablet: Tablet<S> | undefined;
    try {
      const claim = await storage.claim({ writer: randomUUID(), address }, options);
      // Made before the load, which may outlast a lease: it renews that from here on.
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

  /** Each document has its version, so that it does not matter where this is interrupted. */
  async #storeUpgrades(upgrades: readonly StoredChange[]): Promise<void> {
    for (const changes of commitSized(upgrades, this.#limits.commitSizeBytes)) {
      this.#refuseWhenEnded();
      await this.#commit(changes);
    }
  }

  /**
   * Runs `fn` at once and to its end; resolves with its result when its changes are durable. When it throws, nothing
   * has changed, and the promise rejects with what it threw once all that it may have seen is durable. `note` is for
   * what `concludeWith` was given.
   */
  async transact<T>(fn: (tx: Transaction<S>) => T, note?: unknown): Promise<T> {
    this.#refuseWhenEnded();
    this.#refuseWhenFull();
    let result: T;
    try {
      const limits = { sizeBytesMax: this.#limits.commitSizeBytes };
      const transacted = this.#memory.transact(fn, limits, this.#conclude && { run: this.#conclude, note });
      // A commit finds out by itself whether this process still leads. Without one it was a read.
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
   * Runs `fn` at once; its result, or what it throws, comes when everything it may have seen is durable. Rejects with
   * UnavailableError while another process may lead already: what is in memory may be outdated then.
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
    // Now, after `fn` ran: then all that was acknowledged by then is in what it saw.
    this.#storage.checkLease?.();
    await this.#barrier();
    return result;
  }

  /**
   * What is in memory at this moment, which may be lost yet: only for who does nothing about it before a transaction or a
   * read of later has resolved. Throws as `checkMayAct` does.
   */
  ahead<T>(fn: (tables: Tables<S>) => T): T {
    this.checkMayAct();
    return fn(this.#memory.tables);
  }

  /** From now on this ends each transaction that changes something. */
  concludeWith(conclude: Conclude<S>): void {
    this.#conclude = conclude;
  }

  /** Throws UnavailableError while this process should send no order, because another one may lead already. */
  checkMayAct(): void {
    this.#refuseWhenEnded();
    this.#storage.checkLease?.();
  }

  /** The tablet generation of this leader: claimed durably when it started, higher after `claimAbove`. */
  get generation(): number {
    return this.#generation;
  }

  /**
   * Proves, durably, that this process still leads, and goes on with a generation above that number and above its own,
   * which it resolves with. Rejects with FencedError when another one leads; then the tablet is lost. Calls take turns.
   */
  async claimAbove(generation: number): Promise<number> {
    if (!Number.isSafeInteger(generation) || generation < 0 || generation > GENERATION_MAX) {
      throw new InvalidArgumentError(`generation ${generation}: it must be a whole number from 0 to ${GENERATION_MAX}`);
    }
    // Answers of two at once could come in another order than their claims: the generation would go down.
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

  /** The text of a backup, in pieces: of the state of this moment, once that is durable. */
  async *backup(nowMs: number): AsyncGenerator<string> {
    const { id: tabletId, incarnation, parentIncarnations, generation } = this;
    const { logNumber } = this.#storage;
    const documents = await this.#durableDocuments();
    // Proves that no other process has led meanwhile.
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

  /** The documents of this moment, once they are durable. */
  async #durableDocuments(): Promise<Iterable<BackupDocument>> {
    this.#refuseWhenEnded();
    const documents = this.#memory.snapshot();
    await this.#barrier();
    return documents;
  }

  /** For how long this leader may act without another renewal; undefined where nobody else can lead. */
  get leaseLeftMs(): number | undefined {
    return this.#storage.leaseLeftMs?.();
  }

  /** How many documents were read between claim and serving; undefined where nothing can be followed beforehand. */
  get documentsRead(): number | undefined {
    return this.#documentsRead;
  }

  /** Calls back after each durable commit, in order, with its changes. Returns what ends it. */
  watch(listener: CommitListener): () => void {
    // A wrapper, so that the same function can watch twice and each unsubscribe ends one of them.
    const entry: CommitListener = (changes, commit) => listener(changes, commit);
    this.#listeners.add(entry);
    return () => this.#listeners.delete(entry);
  }

  /** Refuses new work, waits until all that was accepted is durable, and hands the lease over. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(): Promise<void> {
    this.#stop(servedElsewhere(`tablet ${this.#name} is closed`));
    // What becomes of the pending transactions is told to those who wait for them.
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
    if (this.#pendingTransactions >= this.#limits.pendingTransactions) {
      throw new ResourceExhaustedError(
        `tablet ${this.#name}: ${this.#pendingTransactions} transactions wait for the storage, which is the limit; try again later`,
      );
    }
    if (this.#pendingSizeBytes >= this.#limits.pendingSizeBytes) {
      throw new ResourceExhaustedError(
        `tablet ${this.#name}: ${this.#pendingSizeBytes} bytes wait for the storage, the limit is ${this.#limits.pendingSizeBytes}; try again later`,
      );
    }
  }

  /** Batches commit in order, so the last one covers all before it. */
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
    // Calls that came together are served one by one: begun with the first, a commit would leave out the others.
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
      // A renewal may have found meanwhile that another process leads; then these transactions are rejected already.
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
      // A process that was busy runs the timer before it hears of what has long been done.
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

  /** Drops everything: memory is ahead of what is durable, and nobody may see it any more. */
  #lose(cause: unknown, { ofCommit }: { ofCommit: boolean }): void {
    if (this.#isLost) return;
    this.#isLost = true;
    const reason =
      cause instanceof DomainError
        ? cause
        : new UnavailableError(`tablet ${this.#name} lost its storage: ${messageOf(cause)}`, { cause });
    this.#ended = reason;
    this.#cancelRenewal();
    for (const batch of this.#batches.splice(0)) {
      batch.reject(batch.sealed ? this.#fateOfSealed(cause, ofCommit) : reason);
    }
    this.#memory = new MemoryTables({} as S);
    this.#listeners.clear();
    this.#resolveLost(reason);
  }

  /** Why those in the commit under way fail: only the commit's own error can say that nothing was done. */
  #fateOfSealed(cause: unknown, ofCommit: boolean): Error {
    if (ofCommit && cause instanceof DomainError) return cause;
    const message = `tablet ${this.#name}: whether the change is durable is not known: ${messageOf(cause)}`;
    return new UnavailableError(message, { cause, outcome: "unknown" });
  }
}
