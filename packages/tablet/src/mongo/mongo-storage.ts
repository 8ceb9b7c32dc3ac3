import { InvalidStateError, messageOf, systemClock, UnavailableError } from "@diskmesh/domain";
import { KnownChecksums, StateSums } from "../documents/checksums.js";
import type { Schema, StoredChange } from "../documents/schema.js";
import { sleep, type TabletClock } from "../storage/clock.js";
import { FORMAT_KEY, FORMAT_TABLE, STORE_FORMAT } from "../storage/format.js";
import type { Claim, ClaimOptions, Leader, LeaderState, OnDocument, TabletStorage } from "../storage/storage.js";
import { collectionsOf, type IsOurs, unknownCollectionsWarning } from "./collections.js";
import type { DocumentServer } from "./document-server.js";
import { encodeDocument } from "./encoding.js";
import { Follower } from "./follower.js";
import { checkOfLeader, formatChange } from "./leader-check.js";
import { CLEAR_TIMEOUT_MS, Lease } from "./lease.js";
import { type LoadOptions, readTablet } from "./load.js";
import { type LoggedChange, TabletLog } from "./log.js";
import { RetryPolicy } from "./retry-policy.js";
import { View, type ViewLimits } from "./view.js";
import { keepViewChecked } from "./view-check.js";

export interface MongoStorageLimits extends ViewLimits {
  /** Time without a renewal of the leader's lease after which a standby takes over. */
  readonly leaseTimeMs: number;
  /**
   * Time after a renewal for which the leader answers reads. Well below `leaseTimeMs`, because clocks run at different
   * speeds.
   */
  readonly safeLeaseTimeMs: number;
  /** Time without an answer after which a claim, load or commit fails. */
  readonly giveUpAfterMs: number;
  /** Interval at which leader and standby compare the view with their memory. */
  readonly checkIntervalMs: number;
}

export const DEFAULT_MONGO_LIMITS: MongoStorageLimits = {
  leaseTimeMs: 5_000,
  safeLeaseTimeMs: 4_000,
  giveUpAfterMs: 20_000,
  checkIntervalMs: 60 * 60_000,
  applyIntervalMs: 100,
  unappliedChanges: 200_000,
  unappliedSizeBytes: 64 * 1024 * 1024,
  batchChanges: 10_000,
  keptLogMs: 20_000,
  keptLogSizeBytes: 32 * 1024 * 1024,
};

export interface MongoStorageOptions {
  readonly tabletName: string;
  readonly connect: (isOurs: IsOurs) => Promise<DocumentServer>;
  readonly limits?: Partial<MongoStorageLimits> | undefined;
  readonly clock?: TabletClock | undefined;
}

/** Maximum size of a commit. A commit is one document, and MongoDB limits documents to 16 MiB. */
const COMMIT_SIZE_BYTES_MAX = 15 * 1024 * 1024;

/** Number of documents after which a load yields, e.g. for a renewal of the lease. */
const LOAD_TURN_DOCUMENTS = 1_000;

/** Number of times that a standby reads the log per lease time. */
const LOG_READS_PER_LEASE = 10;

/** One attempt to lead, from connecting to closing. */
interface Attempt {
  readonly server: DocumentServer;
  readonly retryPolicy: RetryPolicy;
  readonly lease: Lease;
  readonly log: TabletLog;
  readonly nextWriter: () => string;
  /** Aborted when this attempt must do nothing more; the reason says why. */
  readonly ended: AbortController;
  readonly viewEnded: AbortController;
  readonly onTrouble: (trouble: string | undefined) => void;
  readonly onWarning: (warning: string) => void;
  readonly onEdited: (text: string, documents: number) => void;
  readonly schema: Schema | undefined;
  readonly loadOptions: LoadOptions;
  documentsRead: number;
  /** Sums of the committed state. */
  sums: StateSums;
  readonly checksums: KnownChecksums;
  follower?: Follower;
  view?: View;
}

/**
 * A tablet on a MongoDB-compatible server. The log decides which process may write. The lease keeps standbys from
 * claiming while a leader is alive. The view contains the documents for readers.
 */
export class MongoStorage implements TabletStorage {
  readonly commitSizeBytesMax = COMMIT_SIZE_BYTES_MAX;
  readonly #tabletName: string;
  readonly #connect: MongoStorageOptions["connect"];
  readonly #limits: MongoStorageLimits;
  readonly #clock: TabletClock;
  #attempt: Attempt | undefined;

  constructor({ tabletName, connect, limits, clock }: MongoStorageOptions) {
    this.#tabletName = tabletName;
    this.#connect = connect;
    this.#limits = { ...DEFAULT_MONGO_LIMITS, ...limits };
    this.#clock = clock ?? systemClock;
  }

  get logNumber(): number {
    return this.#claimed().log.lastNumber;
  }

  get documentsRead(): number {
    return this.#claimed().documentsRead;
  }

  async claim(leader: Leader, options: ClaimOptions = {}): Promise<Claim> {
    const { signal, onStandby, onFollowing, restore, expects, schema } = options;
    if (this.#attempt !== undefined) throw new InvalidStateError(`tablet ${this.#tabletName} is claimed twice`);
    const isOurs = collectionsOf(this.#tabletName, schema);
    const attempt = this.#newAttempt(await this.#connect(isOurs), leader.writer, isOurs, options);
    this.#attempt = attempt;
    // Before the wait for the lease, because a leader renews that of an existing tablet for ever.
    await attempt.log.refuseUnexpected(expects);
    const waitSignal = AbortSignal.any([attempt.ended.signal, ...(signal ? [signal] : [])]);
    const onWait = (leaderAddress: string): void => {
      if (restore === undefined) this.#follow(attempt, onFollowing);
      onStandby?.(leaderAddress);
    };
    for (;;) {
      const writer = attempt.nextWriter();
      await attempt.lease.take(writer, leader.address, { signal: waitSignal, onStandby: onWait });
      const claim = await attempt.log.claim(writer, leader.address, { restore, expects });
      if (claim === undefined) continue;
      const { tabletId, incarnation, parentIncarnations, generation } = claim;
      return { tabletId, incarnation, parentIncarnations, generation };
    }
  }

  async load(onDocument: OnDocument): Promise<void> {
    const attempt = this.#claimed();
    if (attempt.view !== undefined) throw new InvalidStateError(`tablet ${this.#tabletName} is loaded twice`);
    const { server, retryPolicy, log, lease, nextWriter, viewEnded, ended, loadOptions } = attempt;
    const [tabletName, clock, limits] = [this.#tabletName, this.#clock, this.#limits];
    attempt.documentsRead = 0;
    const claim = log.claimed;
    const state = (await attempt.follower?.takeOver(claim)) ?? (await readTablet(loadOptions, claim));
    let loaded = 0;
    for (const [table, key, stored] of state.documents()) {
      onDocument(table, key, stored);
      if (++loaded % LOAD_TURN_DOCUMENTS === 0) await sleep(clock, 0, ended.signal);
    }
    if (state.unknownCollections.length > 0)
      attempt.onWarning(unknownCollectionsWarning(tabletName, server.name, state.unknownCollections));
    const { checkpoint } = state;
    attempt.sums = state.sums;
    log.begin(state.sums.stored());
    await log.append({ kind: "load", from: checkpoint, claim: claim._id });
    // Another process may have taken the lease and claimed while this process's claim was delayed. It would answer
    // reads without the commits of this process. The renewal fails in this case.
    await lease.renew();
    const { signal } = viewEnded;
    const { onTrouble } = attempt;
    const options = { server, tabletName, retryPolicy, clock, log, lease, limits, nextWriter, signal, onTrouble };
    attempt.view = new View(options, checkpoint, state.outcomes());
    void attempt.view.keepUpToDate().catch((error) => end(attempt, error));
    void this.#makeIndexes(attempt);
    const previous = state.formatDocument ?? null;
    if ((previous?.document as { format?: number } | undefined)?.format === STORE_FORMAT) return;
    await this.#commit(attempt, [formatChange(previous)]);
  }

  async commit(changes: readonly StoredChange[]): Promise<void> {
    for (const { table, key } of changes) if (table !== FORMAT_TABLE || key !== FORMAT_KEY) checkTableName(table);
    await this.#commit(this.#claimed(), changes);
  }

  async #commit(attempt: Attempt, changes: readonly StoredChange[]): Promise<void> {
    const { view } = attempt;
    if (view === undefined) throw new InvalidStateError(`tablet ${this.#tabletName} is used before it was loaded`);
    let sizeBytes = 0;
    const sums = new StateSums(attempt.sums);
    const logged = changes.map(({ table, key, document, version, previous }): LoggedChange => {
      if (previous !== null) sums.remove(table, attempt.checksums.of(table, key, previous));
      if (document === null) return { table, id: key, document: null };
      const encoded = encodeDocument(table, key, { document, version });
      sums.add(table, encoded.checksum);
      attempt.checksums.remember(table, document, encoded.checksum);
      sizeBytes += encoded.sizeBytes;
      return { table, id: key, document: encoded.fields };
    });
    try {
      await view.room();
      await attempt.log.commit(logged, sums.stored(), (seq) => view.add({ seq, changes: logged, sizeBytes }));
      attempt.sums = sums;
    } catch (error) {
      end(attempt, error);
      throw attempt.ended.signal.reason;
    }
  }

  async renew(): Promise<void> {
    const attempt = this.#claimed();
    try {
      await attempt.lease.renew();
      await attempt.log.refuseDeleted();
    } catch (error) {
      end(attempt, error);
      throw attempt.ended.signal.reason;
    }
  }

  async claimAbove(generation: number): Promise<number> {
    const attempt = this.#claimed();
    const { view } = attempt;
    if (view === undefined) throw new InvalidStateError(`tablet ${this.#tabletName} is used before it was loaded`);
    await view.claimAbove(generation);
    return attempt.log.claimed.generation;
  }

  keepChecked(leader: LeaderState): void {
    const { loadOptions, viewEnded, view, onEdited } = this.#claimed();
    const [clock, intervalMs] = [this.#clock, this.#limits.checkIntervalMs];
    const check = checkOfLeader({ ...loadOptions, leader, view: view as View, onEdited });
    void keepViewChecked({ ...loadOptions, ...check, clock, intervalMs, signal: viewEnded.signal });
  }

  checkLease(): void {
    this.#claimed().lease.check();
  }

  leaseLeftMs(): number {
    return this.#claimed().lease.leftMs;
  }

  async close({ handOver }: { readonly handOver: boolean }): Promise<void> {
    const attempt = this.#attempt;
    this.#attempt = undefined;
    if (attempt === undefined) return;
    const closed = new UnavailableError(`tablet ${this.#tabletName} is closed`);
    attempt.viewEnded.abort(closed);
    attempt.follower?.close();
    // Waits for a limited time, because `clear` may be queued behind a renewal that waits forever for an unreachable
    // server. If the lease is not cleared, the next leader waits until it expires.
    const giveUp = sleep(this.#clock, CLEAR_TIMEOUT_MS, attempt.ended.signal).catch(() => {});
    if (handOver) await Promise.race([attempt.lease.clear().catch(() => {}), giveUp]);
    end(attempt, closed);
    await attempt.server.close();
  }

  #follow(attempt: Attempt, onFollowing: () => void = () => {}): void {
    const { loadOptions, onEdited } = attempt;
    const [clock, intervalMs] = [this.#clock, this.#limits.leaseTimeMs / LOG_READS_PER_LEASE];
    const { checkIntervalMs } = this.#limits;
    attempt.follower ??= new Follower({ ...loadOptions, clock, intervalMs, checkIntervalMs, onFollowing, onEdited });
    attempt.follower.start();
  }

  #newAttempt(
    server: DocumentServer,
    writer: string,
    isOurs: IsOurs,
    { schema, onAnswer, onTrouble = () => {}, onWarning = () => {}, onEdited = () => {} }: ClaimOptions,
  ): Attempt {
    const { giveUpAfterMs, leaseTimeMs, safeLeaseTimeMs } = this.#limits;
    const [tabletName, clock, ended] = [this.#tabletName, this.#clock, new AbortController()];
    const retryPolicy = new RetryPolicy({ clock, signal: ended.signal, serverName: server.name, giveUpAfterMs });
    const log = new TabletLog({ server, tabletName, retryPolicy, isOurs });
    const onRead = (documents: number): void => {
      attempt.documentsRead += documents;
    };
    let writers = 0;
    const attempt: Attempt = {
      server,
      retryPolicy,
      lease: new Lease({ server, tabletName, retryPolicy, clock, leaseTimeMs, safeLeaseTimeMs, onAnswer }),
      log,
      nextWriter: () => (writers++ === 0 ? writer : `${writer}.${writers}`),
      ended,
      viewEnded: new AbortController(),
      onTrouble,
      onWarning,
      onEdited,
      schema,
      loadOptions: { server, tabletName, retryPolicy, log, isOurs, onRead },
      documentsRead: 0,
      sums: new StateSums(),
      checksums: new KnownChecksums(),
    };
    return attempt;
  }

  /**
   * Creates the indexes for people's queries. The leader does not need them, so it neither waits for them nor fails
   * with them.
   */
  async #makeIndexes({ server, schema = {}, ended, onWarning }: Attempt): Promise<void> {
    for (const [table, { queries = [] }] of Object.entries(schema)) {
      for (const fields of queries) {
        if (ended.signal.aborted) return;
        try {
          await server.index(`${this.#tabletName}.${table}`, fields);
        } catch (error) {
          if (ended.signal.aborted) return;
          onWarning(`queries of ${table} by ${fields.join(", ")} have no index and may be slow: ${messageOf(error)}`);
        }
      }
    }
  }

  #claimed(): Attempt {
    if (this.#attempt === undefined) {
      throw new InvalidStateError(`tablet ${this.#tabletName} is used before it was claimed, or after it was closed`);
    }
    this.#attempt.ended.signal.throwIfAborted();
    return this.#attempt;
  }
}

/** Aborts the attempt with the reason; an earlier reason stays. */
function end({ ended, viewEnded }: Attempt, reason: unknown): void {
  ended.abort(reason);
  viewEnded.abort(reason);
}

function checkTableName(name: string): void {
  if (/^[A-Za-z][A-Za-z0-9]*$/.test(name) && name !== "log" && name !== FORMAT_TABLE) return;
  throw new TypeError(`${JSON.stringify(name)} is not a name for a table in MongoDB`);
}
