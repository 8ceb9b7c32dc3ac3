import { sleep, type TabletClock } from "../storage/clock.js";
import { type DocumentServer, LostAnswerError, type ViewWrite } from "./document-server.js";
import type { Outcomes } from "./followed-state.js";
import type { Lease } from "./lease.js";
import type { LoggedChange, TabletLog } from "./log.js";
import { FOREVER_MS, type RetryPolicy } from "./retry-policy.js";

export interface ViewLimits {
  /** Interval at which commits are applied to the view; shorter when many are waiting. */
  readonly applyIntervalMs: number;
  /** Maximum number of changes in the log that may be missing from the view. At the limit commits wait. */
  readonly unappliedChanges: number;
  readonly unappliedSizeBytes: number;
  /** Target number of changes per round. A round ends with the commit that reaches it. */
  readonly batchChanges: number;
  /**
   * Time for which applied commits stay in the log, for standbys to follow: between half of this value and this value.
   */
  readonly keptLogMs: number;
  /**
   * Maximum size of applied commits in the log. Above it, the oldest ones are deleted early, until half of this size is
   * left.
   */
  readonly keptLogSizeBytes: number;
}

export interface ViewOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly retryPolicy: RetryPolicy;
  readonly clock: TabletClock;
  readonly log: TabletLog;
  readonly lease: Lease;
  readonly limits: ViewLimits;
  readonly nextWriter: () => string;
  /** Stops the work after the current round. */
  readonly signal: AbortSignal;
  /** Called with the reason why the view lags, repeatedly; called with undefined when it has caught up. */
  readonly onTrouble: (trouble: string | undefined) => void;
}

interface ClaimWanted {
  readonly above: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Unapplied {
  readonly seq: number;
  readonly changes: readonly LoggedChange[];
  readonly sizeBytes: number;
  /**
   * True when more changes of the same log entry follow. No checkpoint comes in between, because a checkpoint states
   * that whole log entries are in the view.
   */
  readonly isPart?: boolean;
}

/** A commit that is in the view and not yet deleted from the log. */
interface Kept {
  readonly upTo: number;
  readonly sizeBytes: number;
  readonly appliedAtMs: number;
}

/** A change with the number of its log entry. */
interface Placed extends LoggedChange {
  readonly seq: number;
}

/** First delay before a refused batch is sent again. It doubles with each refusal, up to LONGEST_REST_MS. */
const FIRST_REST_MS = 100;
const LONGEST_REST_MS = 5_000;
/** Longest time that a claim requested during a pause has to wait. */
const REST_STEP_MS = 50;
const TROUBLE_EVERY_MS = 60_000;

/**
 * Maximum number of rounds for an insert whose id is taken at first and free afterwards. Late writes and deletes may
 * cause a few.
 */
const INSERT_ROUNDS_MAX = 10;

/** Maximum number of writes per request. Larger requests would block commits and renewals on a small server. */
const REQUEST_WRITES = 100;

/** The readable view of one tablet: one collection per table, updated after the commits. */
export class View {
  readonly #options: ViewOptions;
  #checkpoint: number;
  #unapplied: Unapplied[] = [];
  /**
   * Number of entries at the start of `#unapplied` that are in the view already. They stay there until the last part of
   * their log entry is in the view.
   */
  #applied = 0;
  #changes = 0;
  #sizeBytes = 0;
  #wake: () => void = () => {};
  #waitingForRoom: (() => void)[] = [];
  /** Requested claims above a generation; made between two rounds. */
  #claimsWanted: ClaimWanted[] = [];
  /**
   * Applied commits of this process that are still in the log, in log order. Commits of a former leader are deleted
   * together with the first one.
   */
  #kept: Kept[] = [];
  #keptSizeBytes = 0;
  /** Duration of the last pause; 0 while the server accepts writes. */
  #restMs = 0;
  #reportedAtMs = 0;
  /** True when the answer to the last batch was lost. */
  #wasLost = false;

  /**
   * `outcomes` are the changes in the log after the checkpoint. They are applied first, with the number of this
   * process's claim.
   */
  constructor(options: ViewOptions, checkpoint: number, outcomes: Outcomes) {
    this.#options = options;
    this.#checkpoint = checkpoint;
    const changes = [...outcomes].flatMap(([table, byId]) =>
      Array.from(byId, ([id, document]) => ({ table, id, document })),
    );
    for (const part of this.#partsOf({ seq: options.log.claimed._id, changes, sizeBytes: 0 })) this.add(part);
  }

  /** Queues a commit. Must be called in log order. */
  add(entry: Unapplied): void {
    this.#unapplied.push(entry);
    this.#changes += entry.changes.length;
    this.#sizeBytes += entry.sizeBytes;
    this.#wake();
  }

  /** Resolves when the limits permit another commit. */
  async room(): Promise<void> {
    const { unappliedChanges, unappliedSizeBytes } = this.#options.limits;
    while (this.#changes >= unappliedChanges || this.#sizeBytes >= unappliedSizeBytes) {
      this.#options.signal.throwIfAborted();
      await new Promise<void>((resolve) => this.#waitingForRoom.push(resolve));
    }
  }

  /**
   * Resolves when the view contains all entries up to the number and everything queued so far; rejects when the work
   * ends.
   */
  async applied(upTo: number): Promise<void> {
    const { clock, signal, limits } = this.#options;
    const last = Math.max(upTo, this.#unapplied.at(-1)?.seq ?? 0);
    while (this.#checkpoint < last) await sleep(clock, limits.applyIntervalMs, signal);
  }

  /** Claims again with a generation above `above`, which durably proves that this process leads. */
  claimAbove(above: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#claimsWanted.push({ above, resolve, reject });
      this.#wake();
      if (this.#options.signal.aborted) this.#refuseClaims();
    });
  }

  /** Applies commits until the signal aborts. Rejects with the reason when this process may no longer write. */
  async keepUpToDate(): Promise<void> {
    const { signal } = this.#options;
    signal.addEventListener("abort", () => {
      this.#wake();
      this.#makeRoom();
      this.#refuseClaims();
    });
    while (!signal.aborted) {
      if (this.#claimsWanted.length > 0) {
        await this.#claimAgain();
      } else if (this.#unapplied.length > 0) {
        await this.#gather();
        if (!signal.aborted) await this.#applyBatch();
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }

  /** Waits for commits to accumulate, so that one round applies many. */
  async #gather(): Promise<void> {
    const { clock, signal, limits } = this.#options;
    if (this.#changes >= limits.unappliedChanges / 2 || this.#sizeBytes >= limits.unappliedSizeBytes / 2) return;
    await sleep(clock, limits.applyIntervalMs, signal).catch(() => {});
  }

  async #applyBatch(): Promise<void> {
    const { log } = this.#options;
    const batch = this.#nextBatch();
    const { seq: upTo, isPart } = batch.at(-1) as Unapplied;
    const { lost, refused } = await this.#apply(batch);
    if (lost !== undefined) {
      // A server may lose every answer, and each claim stays in the log forever, so claims are delayed.
      if (this.#wasLost) await this.#rest(lost);
      this.#wasLost = true;
      if (!this.#options.signal.aborted) await this.#claimAgain();
      return;
    }
    this.#wasLost = false;
    if (refused !== undefined) return this.#rest(refused);
    this.#endRests();
    this.#applied += batch.length;
    if (isPart) return;
    await log.append({ kind: "checkpoint", upTo }, FOREVER_MS);
    this.#checkpoint = upTo;
    const applied = this.#unapplied.splice(0, this.#applied);
    this.#applied = 0;
    let batchSizeBytes = 0;
    for (const { changes, sizeBytes } of applied) {
      this.#changes -= changes.length;
      batchSizeBytes += sizeBytes;
    }
    this.#sizeBytes -= batchSizeBytes;
    this.#makeRoom();
    this.#keep({ upTo, sizeBytes: batchSizeBytes, appliedAtMs: this.#options.clock.monotonicMs() });
    await this.#deleteKept();
  }

  #keep(kept: Kept): void {
    this.#kept.push(kept);
    this.#keptSizeBytes += kept.sizeBytes;
  }

  /** Deletes rarely and many entries at once, because on some servers a delete scans the whole log. */
  async #deleteKept(): Promise<void> {
    const { clock, limits, log } = this.#options;
    const { keptLogMs, keptLogSizeBytes } = limits;
    const nowMs = clock.monotonicMs();
    const isOver = (share: number): boolean => {
      const oldest = this.#kept[0];
      if (oldest === undefined) return false;
      return nowMs - oldest.appliedAtMs >= keptLogMs * share || this.#keptSizeBytes > keptLogSizeBytes * share;
    };
    if (!isOver(1)) return;
    let upTo = 0;
    while (isOver(0.5)) {
      const oldest = this.#kept.shift() as Kept;
      this.#keptSizeBytes -= oldest.sizeBytes;
      upTo = oldest.upTo;
    }
    // Ignores failures: remaining entries do no harm and are deleted later.
    await log.deleteApplied(upTo).catch(ignoreLostAnswer);
  }

  #nextBatch(): Unapplied[] {
    const { batchChanges } = this.#options.limits;
    let changes = 0;
    const rest = this.#unapplied.slice(this.#applied);
    const length = rest.findIndex((entry) => {
      changes += entry.changes.length;
      return changes >= batchChanges;
    });
    return rest.slice(0, length < 0 ? undefined : length + 1);
  }

  /** Splits the changes of one log entry into batches. */
  #partsOf({ seq, changes, sizeBytes }: Unapplied): Unapplied[] {
    const { batchChanges } = this.#options.limits;
    const parts: Unapplied[] = [];
    let first = 0;
    for (; first + batchChanges < changes.length; first += batchChanges)
      parts.push({ seq, changes: changes.slice(first, first + batchChanges), sizeBytes: 0, isPart: true });
    return [...parts, { seq, changes: changes.slice(first), sizeBytes }];
  }

  /**
   * Pauses before a refused batch is sent again. Unlike a write whose answer was lost, a refused write cannot arrive
   * later. Meanwhile the log grows up to its limits.
   */
  async #rest(refused: string): Promise<void> {
    const { clock, signal, server, tabletName, onTrouble } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#restMs === 0 || nowMs - this.#reportedAtMs >= TROUBLE_EVERY_MS) {
      this.#reportedAtMs = nowMs;
      onTrouble(
        `MongoDB at ${server.name} refuses writes to the collections of tablet ${tabletName}: ${refused}; no data is lost, the log grows until the server accepts the writes: remove the cause there`,
      );
    }
    this.#restMs = Math.min(LONGEST_REST_MS, Math.max(FIRST_REST_MS, this.#restMs * 2));
    const untilMs = nowMs + this.#restMs;
    while (!signal.aborted && this.#claimsWanted.length === 0 && clock.monotonicMs() < untilMs)
      await sleep(clock, REST_STEP_MS, signal).catch(() => {});
  }

  #endRests(): void {
    if (this.#restMs === 0) return;
    this.#restMs = 0;
    this.#options.onTrouble(undefined);
  }

  /**
   * Applies a batch. `lost` describes a write whose answer was lost. That write must not be sent again, because the
   * first attempt may still arrive after a later delete of the document. `refused` is the server's reason for refusing
   * a write.
   */
  async #apply(batch: readonly Unapplied[]): Promise<{ lost?: string; refused?: string }> {
    const writesByTable = new Map<string, ViewWrite[]>();
    for (const { table, id, seq, document } of lastChanges(batch)) {
      const writes = writesByTable.get(table);
      if (writes === undefined) writesByTable.set(table, [{ id, seq, document }]);
      else writes.push({ id, seq, document });
    }
    try {
      for (const [table, writes] of writesByTable) {
        for (let first = 0; first < writes.length; first += REQUEST_WRITES) {
          const request = writes.slice(first, first + REQUEST_WRITES);
          const refused = await this.#write(`${this.#options.tabletName}.${table}`, request);
          if (refused !== undefined) return { refused };
        }
      }
      return {};
    } catch (error) {
      if (error instanceof LostAnswerError) return { lost: error.message };
      throw error;
    }
  }

  /** Returns the reason why some writes were not done; undefined when all were. */
  async #write(collection: string, writes: readonly ViewWrite[]): Promise<string | undefined> {
    const { server, retryPolicy } = this.#options;
    let rest = writes;
    for (let rounds = 1; rest.length > 0; rounds++) {
      const { present, refused } = await server.write(collection, rest);
      if (refused !== undefined) return refused;
      rest = [];
      for (const write of present) {
        // Repeats the write unless the stored document is newer. A late write may have inserted an older document
        // between the server's search and its insert.
        const stored = await retryPolicy.answerOf(() => server.get(collection, write.id), FOREVER_MS);
        if (stored === undefined || !((stored._seq as number) >= write.seq)) rest = [...rest, write];
      }
      if (rest.length > 0 && rounds >= INSERT_ROUNDS_MAX)
        return `${collection} rejects document ${JSON.stringify(rest[0]?.id)} although it is absent: check for a unique index`;
    }
    return undefined;
  }

  /**
   * Claims again, with a load entry that covers all changes that may be missing from the view; they are applied anew
   * with the claim's number.
   */
  async #claimAgain(): Promise<void> {
    const { log, lease, nextWriter } = this.#options;
    const writer = nextWriter();
    const wanted = [...this.#claimsWanted];
    const above = Math.max(0, ...wanted.map((each) => each.above));
    await log.claimAgain(
      { writer, from: this.#checkpoint, above },
      () => lease.hand(writer),
      (claim) => {
        const changes: LoggedChange[] = lastChanges(this.#unapplied).map(({ table, id, document }) => ({
          table,
          id,
          document,
        }));
        this.#unapplied = this.#partsOf({ seq: claim, changes, sizeBytes: this.#sizeBytes });
        this.#applied = 0;
        this.#changes = changes.length;
      },
    );
    this.#claimsWanted.splice(0, wanted.length);
    for (const { resolve } of wanted) resolve();
  }

  #refuseClaims(): void {
    const { reason } = this.#options.signal;
    for (const { reject } of this.#claimsWanted.splice(0)) reject(reason);
  }

  #makeRoom(): void {
    for (const resolve of this.#waitingForRoom.splice(0)) resolve();
  }
}

/** Keeps only the last change of each document. */
function lastChanges(entries: readonly Unapplied[]): Placed[] {
  const placed = new Map<string, Placed>();
  for (const { seq, changes } of entries) {
    for (const { table, id, document } of changes) {
      placed.set(`${table}\0${id}`, { table, id, document, seq });
    }
  }
  return [...placed.values()];
}

function ignoreLostAnswer(error: unknown): void {
  if (!(error instanceof LostAnswerError)) throw error;
}
