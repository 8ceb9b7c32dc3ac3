import { sleep, type TabletClock } from "../clock.js";
import { type DocumentServer, LostAnswerError, type ViewWrite } from "./document-server.js";
import type { Outcomes } from "./followed-state.js";
import type { Lease } from "./lease.js";
import type { LoggedChange, TabletLog } from "./log.js";
import { FOREVER_MS, type Patience } from "./patience.js";

export interface ViewLimits {
  /** Interval of applying commits to the view; shorter when many have accumulated. */
  readonly applyIntervalMs: number;
  /** Changes in the log that may be missing from the view; beyond this limit commits wait. */
  readonly unappliedChanges: number;
  readonly unappliedSizeBytes: number;
  /** Changes applied per round. */
  readonly batchChanges: number;
  /**
   * Time for which commits stay in the log after they were applied, for standbys to follow: at most this, and at least
   * half of it.
   */
  readonly keptLogMs: number;
  /** Size of the applied commits from which half of them are deleted early. */
  readonly keptLogSizeBytes: number;
}

export interface ViewOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly patience: Patience;
  readonly clock: TabletClock;
  readonly log: TabletLog;
  readonly lease: Lease;
  readonly limits: ViewLimits;
  readonly nextWriter: () => string;
  /** Ends the work after the current round. */
  readonly signal: AbortSignal;
  /** Called with the reason why the view lags, at first and repeatedly; with undefined when it has caught up. */
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
   * True when more changes of the same number follow. No checkpoint may come in between, because a later claim would
   * drop the applied part.
   */
  readonly isPart?: boolean;
}

/** A commit that is in the view and still in the log. */
interface Kept {
  readonly upTo: number;
  readonly sizeBytes: number;
  readonly appliedAtMs: number;
}

/** A change with the number of its log entry. */
interface Placed extends LoggedChange {
  readonly seq: number;
}

/** Pauses between two tries of a batch that the server refuses. */
const FIRST_REST_MS = 100;
const LONGEST_REST_MS = 5_000;
/** Longest delay of a claim that is requested during a pause. */
const REST_STEP_MS = 50;
const TROUBLE_EVERY_MS = 60_000;

/**
 * Limit of rounds for an insert that finds its id taken and then free: older writes may still arrive and be deleted.
 */
const INSERT_ROUNDS_MAX = 10;

/** Writes per request. More would keep a small server from commits and renewals for long. */
const REQUEST_WRITES = 100;

/** The readable view of one tablet: one collection per table, updated after the commits. */
export class View {
  readonly #options: ViewOptions;
  #checkpoint: number;
  #unapplied: Unapplied[] = [];
  /** Number of these entries that are applied and wait for their last part. */
  #applied = 0;
  #changes = 0;
  #sizeBytes = 0;
  #wake: () => void = () => {};
  #waitingForRoom: (() => void)[] = [];
  /** Requested claims above a generation; they are made between two rounds. */
  #claimsWanted: ClaimWanted[] = [];
  /** Applied commits in the order of the log. Those of a former leader are deleted with the first. */
  #kept: Kept[] = [];
  #keptSizeBytes = 0;
  /** Length of the last pause; 0 while the server accepts writes. */
  #restMs = 0;
  #toldAtMs = 0;
  /** True while the last batch ended with a lost answer. */
  #wasLost = false;

  /**
   * `outcomes` are the changes in the log after the checkpoint; they are applied first, with the number of the own
   * claim.
   */
  constructor(options: ViewOptions, checkpoint: number, outcomes: Outcomes) {
    this.#options = options;
    this.#checkpoint = checkpoint;
    const changes = [...outcomes].flatMap(([table, byId]) =>
      Array.from(byId, ([id, document]) => ({ table, id, document })),
    );
    for (const part of this.#partsOf({ seq: options.log.claimed._id, changes, sizeBytes: 0 })) this.add(part);
  }

  /** Must be called in the order of the log. */
  add(entry: Unapplied): void {
    this.#unapplied.push(entry);
    this.#changes += entry.changes.length;
    this.#sizeBytes += entry.sizeBytes;
    this.#wake();
  }

  /** Resolves when another commit may be added. */
  async room(): Promise<void> {
    const { unappliedChanges, unappliedSizeBytes } = this.#options.limits;
    while (this.#changes >= unappliedChanges || this.#sizeBytes >= unappliedSizeBytes) {
      this.#options.signal.throwIfAborted();
      await new Promise<void>((resolve) => this.#waitingForRoom.push(resolve));
    }
  }

  /**
   * Resolves when the view shows everything up to that log number and everything added so far; rejects when the work
   * ends.
   */
  async applied(upTo: number): Promise<void> {
    const { clock, signal, limits } = this.#options;
    const last = Math.max(upTo, this.#unapplied.at(-1)?.seq ?? 0);
    while (this.#checkpoint < last) await sleep(clock, limits.applyIntervalMs, signal);
  }

  /** Claims again with a generation above that one, which proves durably that this process leads. */
  claimAbove(above: number): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#claimsWanted.push({ above, resolve, reject });
      this.#wake();
      if (this.#options.signal.aborted) this.#refuseClaims();
    });
  }

  /** Works until the signal aborts, or rejects with the reason why this process may no longer write. */
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

  /** Waits for changes to accumulate, so that one round covers many commits. */
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
      // A server may answer every try with an error that leaves the outcome unknown, and each claim stays in the log
      // forever.
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

  /** Deletes rarely and much at a time, because on some servers a delete scans the whole log. */
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
    // Entries left by a failure are deleted later; they do no harm.
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

  /** Splits the changes of one number into batches. */
  #partsOf({ seq, changes, sizeBytes }: Unapplied): Unapplied[] {
    const { batchChanges } = this.#options.limits;
    const parts: Unapplied[] = [];
    let first = 0;
    for (; first + batchChanges < changes.length; first += batchChanges)
      parts.push({ seq, changes: changes.slice(first, first + batchChanges), sizeBytes: 0, isPart: true });
    return [...parts, { seq, changes: changes.slice(first), sizeBytes }];
  }

  /**
   * Pauses before a refused batch is sent again. A refused write cannot arrive later, unlike one whose answer was lost.
   * Meanwhile the log grows up to its limits.
   */
  async #rest(refused: string): Promise<void> {
    const { clock, signal, server, tabletName, onTrouble } = this.#options;
    const nowMs = clock.monotonicMs();
    if (this.#restMs === 0 || nowMs - this.#toldAtMs >= TROUBLE_EVERY_MS) {
      this.#toldAtMs = nowMs;
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
   * Applies a batch. `lost` describes the lost answer of a write: it must not be sent again, because it may still
   * arrive, later than a delete. `refused` is the server's reason for not doing a write.
   */
  async #apply(batch: readonly Unapplied[]): Promise<{ lost?: string; refused?: string }> {
    const writesByTable = new Map<string, ViewWrite[]>();
    for (const { table, id, seq, document } of lastWords(batch)) {
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
    const { server, patience } = this.#options;
    let rest = writes;
    for (let rounds = 1; rest.length > 0; rounds++) {
      const { present, refused } = await server.write(collection, rest);
      if (refused !== undefined) return refused;
      rest = [];
      for (const write of present) {
        // Usually a newer document was there. It may also be the late write of an older one, which appeared between the
        // search for a document and the insert.
        const stored = await patience.answerOf(() => server.get(collection, write.id), FOREVER_MS);
        if (stored === undefined || !((stored._seq as number) >= write.seq)) rest = [...rest, write];
      }
      if (rest.length > 0 && rounds >= INSERT_ROUNDS_MAX)
        return `${collection} takes no document ${JSON.stringify(rest[0]?.id)} and has none: did somebody make a unique index?`;
    }
    return undefined;
  }

  /** Claims anew with memory as the load: the outcome of all changes that may be missing from the view. */
  async #claimAgain(): Promise<void> {
    const { log, lease, nextWriter } = this.#options;
    const writer = nextWriter();
    const wanted = [...this.#claimsWanted];
    const above = Math.max(0, ...wanted.map((each) => each.above));
    await log.claimAgain(
      { writer, from: this.#checkpoint, above },
      () => lease.hand(writer),
      (claim) => {
        const changes: LoggedChange[] = lastWords(this.#unapplied).map(({ table, id, document }) => ({
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

/** Reduces changes to the last one per document. */
function lastWords(entries: readonly Unapplied[]): Placed[] {
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
