import { randomUUID } from "node:crypto";
import { AlreadyExistsError, FencedError, InvalidStateError } from "@diskmesh/domain";
import { refuseRestore, restoredFields } from "../backup/restored-claim.js";
import type { StoredSums } from "../documents/checksums.js";
import { CURE, newerFormat, STORE_FORMAT } from "../storage/format.js";
import { noTablet } from "../storage/no-tablet.js";
import { OneAtATime } from "../storage/one-at-a-time.js";
import type { ClaimOptions, RestoredClaim } from "../storage/storage.js";
import type { IsOurs } from "./collections.js";
import {
  type DocumentReader,
  type DocumentServer,
  type Fields,
  LostAnswerError,
  type Range,
  type StoredDocument,
} from "./document-server.js";
import { FOREVER_MS, type RetryPolicy } from "./retry-policy.js";

/**
 * Fields of every log entry. Numbers above the last checkpoint have no gaps, with one exception: after the claim that
 * begins a restore, the next number is the claim's `firstNumber`.
 */
interface EntryBase {
  readonly _id: number;
  readonly generation: number;
  readonly writer: string;
}

export interface ClaimEntry extends EntryBase {
  readonly kind: "claim";
  /** Generation of the preceding entry. */
  readonly previousGeneration: number;
  readonly tabletId: string;
  /** Store format that the claimant writes. */
  readonly format: number;
  readonly incarnation: string;
  readonly parentIncarnations: readonly string[];
  /**
   * Number of the first claim of the incarnation. Lower numbers in the log and the view belong to an earlier
   * incarnation.
   */
  readonly firstNumber: number;
  /** Set in the claim that begins a restore, until the restore is finished. */
  readonly isRestore?: true;
  readonly address: string;
}

/** Sums of the whole state as of the entry. */
interface WithSums {
  readonly sums: StoredSums;
}

/**
 * Marks the end of a leader's load. The leader has read the view as of checkpoint `from`, and all entries from there up
 * to its claim, whose number is `claim`.
 */
export interface LoadEntry extends EntryBase, WithSums {
  readonly kind: "load";
  readonly from: number;
  readonly claim: number;
}

export interface CommitEntry extends EntryBase, WithSums {
  readonly kind: "commit";
  readonly changes: readonly LoggedChange[];
}

/** All entries up to `upTo` are in the view. */
interface CheckpointEntry extends EntryBase, WithSums {
  readonly kind: "checkpoint";
  readonly upTo: number;
}

export type Entry = ClaimEntry | LoadEntry | CommitEntry | CheckpointEntry;

export const EVERY_KIND: readonly Entry["kind"][] = ["claim", "load", "commit", "checkpoint"];

/** A document as stored, with its checksum; null means deleted. */
export interface LoggedChange {
  readonly table: string;
  readonly id: string;
  readonly document: Fields | null;
}

type NewEntry =
  | Omit<ClaimEntry, keyof EntryBase>
  | Pick<LoadEntry, "kind" | "from" | "claim">
  | Pick<CommitEntry, "kind" | "changes">
  | Pick<CheckpointEntry, "kind" | "upTo">;

export interface LogOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly retryPolicy: RetryPolicy;
  readonly isOurs: IsOurs;
}

const PAGE_ENTRIES = 1_000;

/** The log of one tablet, as its leader writes it. Only the process with the newest claim in the log may write. */
export class TabletLog {
  readonly #server: DocumentServer;
  readonly #tabletName: string;
  readonly #collection: string;
  readonly #retryPolicy: RetryPolicy;
  readonly #isOurs: IsOurs;
  readonly #turns = new OneAtATime();
  #last = 0;
  #claim: ClaimEntry | undefined;
  /**
   * Set when nothing more can be appended: the outcome of the last attempt is unknown, or another process has used the
   * number.
   */
  #failure: unknown;
  /** This process's latest claim that the log contains. It differs from `#claim` while a new claim is appended. */
  #kept: ClaimEntry | undefined;
  #sums: StoredSums = {};

  constructor({ server, tabletName, retryPolicy, isOurs }: LogOptions) {
    this.#server = server;
    this.#tabletName = tabletName;
    this.#collection = `${tabletName}.log`;
    this.#retryPolicy = retryPolicy;
    this.#isOurs = isOurs;
  }

  /** Number of the last entry that this process appended. */
  get lastNumber(): number {
    return this.#last;
  }

  get claimed(): ClaimEntry {
    if (this.#claim === undefined)
      throw new InvalidStateError(`tablet ${this.#tabletName} is used before it was claimed`);
    return this.#claim;
  }

  /** Claims the next generation. Returns undefined when another candidate claimed concurrently. */
  async claim(
    writer: string,
    address: string,
    { restore, expects }: Pick<ClaimOptions, "restore" | "expects"> = {},
  ): Promise<ClaimEntry | undefined> {
    let claim: ClaimEntry;
    do {
      const last = await this.#lastEntry();
      const lastClaim = last && (await this.#claimOf(last));
      if (!restore?.replace) await this.#refuseClaim(last, lastClaim, restore);
      if (restore === undefined) this.#refuseUnexpected(last, expects);
      const previousGeneration = last?.generation ?? 0;
      const number = last === undefined ? 1 : nextNumber(last);
      claim = {
        _id: number,
        generation: previousGeneration + 1,
        writer,
        kind: "claim",
        previousGeneration,
        format: STORE_FORMAT,
        tabletId: lastClaim?.tabletId ?? randomUUID(),
        incarnation: lastClaim?.incarnation ?? randomUUID(),
        parentIncarnations: lastClaim?.parentIncarnations ?? [],
        // Leaves a gap of at least one number, by which followers notice the restore.
        firstNumber: restore ? Math.max(number + 2, restore.firstNumber) : (lastClaim?.firstNumber ?? 1),
        ...(restore && restoredFields(restore, previousGeneration)),
        address,
      };
    } while ((await this.#insert(claim)) !== undefined);
    // A successful insert is not enough: this process may have been suspended after it chose the number, while other
    // leaders applied and deleted the log up to there.
    if (!(await this.#isLast(claim._id))) return undefined;
    this.#claim = claim;
    this.#kept = claim;
    this.#last = claim._id;
    if (restore === undefined) return claim;
    this.#last = claim.firstNumber - 1;
    const first = await this.#claimNext({ writer, above: 0, isRestore: true });
    // A concurrent restore may have begun at a higher number, which late entries of a dropped log made it choose.
    return (await this.#isLast(first)) ? this.claimed : undefined;
  }

  /** Throws unless the log shows that the database holds what is expected. */
  async refuseUnexpected(expects: ClaimOptions["expects"]): Promise<void> {
    if (expects === undefined) return;
    const last = await this.#lastEntry();
    // Names a lost log as such.
    if (last === undefined) await this.#refuseLost();
    this.#refuseUnexpected(last, expects);
  }

  /** Throws InvalidStateError when this process's claim was deleted from the log or replaced. */
  async refuseDeleted(): Promise<void> {
    const claim = this.#kept as ClaimEntry;
    const stored = await this.#get(claim._id, FOREVER_MS);
    if (stored?.writer === claim.writer) return;
    throw new InvalidStateError(
      `${this.#collection} in MongoDB at ${this.#server.name} was deleted or replaced while this process was the leader: its claim, number ${claim._id}, is missing; later writes may be lost; ${CURE}`,
    );
  }

  /** Throws FencedError when the log has a newer claim. */
  async refuseFenced(): Promise<void> {
    const last = await this.#lastEntry();
    const { generation } = this.claimed;
    if (last !== undefined && last.generation > generation) throw fenced(this.#tabletName, last, generation);
  }

  /**
   * Appends an entry right after this process's last one. Throws FencedError when another process's entry has that
   * number.
   */
  async append(entry: NewEntry, giveUpAfterMs?: number): Promise<void> {
    await this.#turns.run(() => this.#append(entry, giveUpAfterMs));
  }

  /** Sets the sums of the loaded state; must be called before the load entry is appended. */
  begin(sums: StoredSums): void {
    this.#sums = sums;
  }

  /**
   * Appends a commit; `sums` are the sums of the state after it. Calls `then` with the entry's number before the next
   * entry is appended.
   */
  commit(changes: readonly LoggedChange[], sums: StoredSums, then: (number: number) => void): Promise<void> {
    return this.#turns.run(async () => {
      this.#sums = sums;
      then(await this.#append({ kind: "commit", changes }));
    });
  }

  /**
   * Claims again right after this process's last entry, with a new writer id and a generation above the present one and
   * `above`. The load entry then makes late writes to the view with a number between `from` and the claim's leftovers.
   * Nothing is appended while `handLease` runs.
   */
  claimAgain(
    { writer, from, above }: { readonly writer: string; readonly from: number; readonly above: number },
    handLease: () => Promise<void>,
    then: (number: number) => void,
  ): Promise<void> {
    return this.#turns.run(async () => {
      await handLease();
      // A restore ends with the claim that the restoring process requests (`above` > 0), not with a claim that a lost
      // answer made necessary.
      const isRestore = this.claimed.isRestore === true && above === 0;
      const claim = await this.#claimNext({ writer, above, isRestore }, FOREVER_MS);
      await this.#append({ kind: "load", from, claim }, FOREVER_MS);
      then(claim);
    });
  }

  /** Returns the first number of the current incarnation; 1 when there is no claim. */
  async firstNumber(): Promise<number> {
    const last = await this.#lastEntry();
    const claim = last && (await this.#claimOf(last));
    return claim?.firstNumber ?? 1;
  }

  /** Yields the entries of these kinds in a range of numbers, in order. */
  async *entries<Kind extends Entry["kind"]>(
    kinds: readonly Kind[],
    { after, below }: { readonly after: number; readonly below?: number | undefined },
    reader: DocumentReader = this.#server,
  ): AsyncGenerator<Extract<Entry, { kind: Kind }>> {
    for (let last = after; ; ) {
      const range = { after: last, below, kinds, limit: PAGE_ENTRIES };
      const page = await this.#retryPolicy.answerOf(() => reader.find(this.#collection, range));
      for (const entry of page) yield entry as unknown as Extract<Entry, { kind: Kind }>;
      if (page.length < PAGE_ENTRIES) return;
      last = page.at(-1)?._id as number;
    }
  }

  /**
   * Deletes the commits and checkpoints up to `upTo`, whose changes are in the view. Claims and loads stay forever, so
   * that an old leader's insert at such a number fails.
   */
  async deleteApplied(upTo: number): Promise<void> {
    await this.#server.delete(this.#collection, { below: upTo + 1, kinds: ["commit", "checkpoint"] });
  }

  /** Claims right after this process's last entry; returns the claim's number. */
  async #claimNext(
    { writer, above, isRestore }: { readonly writer: string; readonly above: number; readonly isRestore: boolean },
    giveUpAfterMs?: number,
  ): Promise<number> {
    const { _id, generation: previousGeneration, writer: _, isRestore: __, ...kept } = this.claimed;
    const next = { ...kept, previousGeneration, ...(isRestore ? { isRestore } : {}) };
    this.#claim = { _id, ...next, writer, generation: Math.max(previousGeneration, above) + 1 };
    const number = await this.#append(next, giveUpAfterMs);
    this.#claim = { ...this.claimed, _id: number };
    this.#kept = this.#claim;
    return number;
  }

  async #append(fields: NewEntry, giveUpAfterMs?: number): Promise<number> {
    if (this.#failure !== undefined) throw this.#failure;
    const { generation, writer } = this.claimed;
    const sums = fields.kind === "claim" ? {} : { sums: this.#sums };
    const entry = { _id: this.#last + 1, generation, writer, ...fields, ...sums } as Entry;
    try {
      const newer = await this.#insert(entry, giveUpAfterMs);
      if (newer !== undefined) throw fenced(this.#tabletName, newer, generation);
    } catch (error) {
      this.#failure = error;
      throw error;
    }
    this.#last = entry._id;
    return entry._id;
  }

  /** Inserts an entry. If another writer's entry has the number, returns that entry. */
  #insert(entry: Entry, giveUpAfterMs?: number): Promise<Entry | undefined> {
    return this.#retryPolicy.answerOf(async () => {
      if (await this.#server.insert(this.#collection, entry as unknown as StoredDocument)) return undefined;
      const stored = (await this.#server.get(this.#collection, entry._id)) as unknown as Entry | undefined;
      // The insert found the number taken, but a majority read finds no entry: it was deleted since, or is not
      // replicated yet and may still be rolled back.
      if (stored === undefined)
        throw new LostAnswerError(
          `number ${entry._id} of ${this.#collection} is taken by an entry that no majority of the members confirms`,
        );
      return stored.writer === entry.writer ? undefined : stored;
    }, giveUpAfterMs);
  }

  get #where(): string {
    return `tablet ${this.#tabletName} in MongoDB at ${this.#server.name}`;
  }

  /** Throws InvalidStateError when the existing log must not be claimed. */
  async #refuseClaim(last?: Entry, lastClaim?: ClaimEntry, restore?: RestoredClaim): Promise<void> {
    if (last === undefined) return this.#refuseLost();
    if (lastClaim !== undefined && lastClaim.format > STORE_FORMAT)
      throw new InvalidStateError(newerFormat(this.#where, lastClaim.format));
    refuseRestore(lastClaim, restore, this.#where);
    // Another program may have removed fields of claims.
    const { firstNumber, incarnation }: Partial<ClaimEntry> = lastClaim ?? {};
    const first = firstNumber === undefined ? undefined : await this.#get(firstNumber);
    if (first?.kind === "claim" && incarnation !== undefined && first.incarnation === incarnation) return;
    throw new InvalidStateError(
      `${this.#collection} in MongoDB at ${this.#server.name} does not begin with a claim of its incarnation; ${CURE}`,
    );
  }

  #refuseUnexpected(last: Entry | undefined, expects: ClaimOptions["expects"]): void {
    if (last === undefined && expects === "a tablet") throw noTablet(this.#where);
    if (last !== undefined && expects === "nothing") throw new AlreadyExistsError(`${this.#where} exists`);
  }

  /** Throws InvalidStateError when tables exist without a log. */
  async #refuseLost(): Promise<void> {
    for (const collection of await this.#collections()) {
      const page = await this.#retryPolicy.answerOf(() => this.#server.find(collection, { limit: 1 }));
      if (collection === this.#collection || page.length === 0) continue;
      // If another candidate has begun the tablet since, the log exists now.
      if ((await this.#lastEntry()) !== undefined) return;
      throw new InvalidStateError(
        `${this.#where} is not whole: its log, ${this.#collection}, is missing, although ${collection} shows that it existed; ${CURE}; to start with an empty tablet, drop ${this.#tabletName}.*`,
      );
    }
  }

  async #collections(): Promise<string[]> {
    const found = await this.#retryPolicy.answerOf(() => this.#server.collections(`${this.#tabletName}.`));
    return found.filter(this.#isOurs);
  }

  async #get(number: number, giveUpAfterMs?: number): Promise<Entry | undefined> {
    const stored = await this.#retryPolicy.answerOf(() => this.#server.get(this.#collection, number), giveUpAfterMs);
    return stored as unknown as Entry | undefined;
  }

  /**
   * Returns the claim of the leader that wrote the entry; undefined when it is missing. Skips claims that other
   * candidates made late, at numbers whose entries had been deleted.
   */
  async #claimOf(entry: Entry): Promise<ClaimEntry | undefined> {
    let claim: Entry | undefined = entry;
    while (claim !== undefined && !(claim.kind === "claim" && claim.writer === entry.writer))
      claim = await this.#lastEntry({ kinds: ["claim"], below: claim._id });
    return claim;
  }

  async #isLast(number: number): Promise<boolean> {
    return (await this.#lastEntry())?._id === number;
  }

  async #lastEntry(among: Pick<Range, "kinds" | "below"> = {}): Promise<Entry | undefined> {
    const range = { ...among, limit: 1, descending: true };
    const [last] = await this.#retryPolicy.answerOf(() => this.#server.find(this.#collection, range));
    return last as unknown as Entry | undefined;
  }
}

/**
 * Returns the number for the next claim. After an interrupted restore it is the first number of the new incarnation,
 * because the restoring process may still claim there and is fenced by an entry with that number.
 */
function nextNumber(last: Entry): number {
  // A restore replaces what any program left, also a claim without this field.
  const { firstNumber = 1 }: Partial<ClaimEntry> = last.kind === "claim" ? last : {};
  return Math.max(last._id + 1, firstNumber);
}

function fenced(tabletName: string, by: Entry, ownGeneration: number): FencedError {
  const who = by.kind === "claim" ? by.address : "another process";
  return new FencedError(
    `tablet ${tabletName} has been claimed by ${who} with generation ${by.generation}; this process has generation ${ownGeneration}`,
  );
}
