import { randomUUID } from "node:crypto";
import { FencedError, InvalidStateError } from "@diskmesh/domain";
import type { DocumentServer, Fields, StoredDocument } from "./document-server.js";
import { OneAtATime } from "./one-at-a-time.js";
import { FOREVER_MS, type Patience } from "./patience.js";

/** What every entry of the log has. Numbers have no gaps above the last checkpoint. */
interface EntryBase {
  readonly _id: number;
  readonly generation: number;
  readonly writer: string;
}

export interface ClaimEntry extends EntryBase {
  readonly kind: "claim";
  /** That of the entry before it. Absent in claims of the first release, which are higher by one. */
  readonly previousGeneration?: number;
  readonly tabletId: string;
  /** Absent in claims of the first release. */
  readonly incarnation?: string;
  readonly parentIncarnations?: readonly string[];
  readonly address: string;
}

/** A claim as this release makes it. */
export type OwnClaim = Required<ClaimEntry>;

/** A leader took up all that was committed before its claim, starting from the view as of a checkpoint. */
export interface LoadEntry extends EntryBase {
  readonly kind: "load";
  readonly from: number;
  readonly claim: number;
}

export interface CommitEntry extends EntryBase {
  readonly kind: "commit";
  readonly changes: readonly StoredChange[];
}

/** Everything up to that number is in the view. */
export interface CheckpointEntry extends EntryBase {
  readonly kind: "checkpoint";
  readonly upTo: number;
}

export type Entry = ClaimEntry | LoadEntry | CommitEntry | CheckpointEntry;

export const EVERY_KIND: readonly Entry["kind"][] = ["claim", "load", "commit", "checkpoint"];

export interface StoredChange {
  readonly table: string;
  readonly id: string;
  readonly document: Fields | null;
}

type NewEntry =
  | Omit<OwnClaim, keyof EntryBase>
  | Pick<LoadEntry, "kind" | "from" | "claim">
  | Pick<CommitEntry, "kind" | "changes">
  | Pick<CheckpointEntry, "kind" | "upTo">;

export interface LogOptions {
  readonly server: DocumentServer;
  readonly tabletName: string;
  readonly patience: Patience;
}

/** Entries that one read fetches. */
const PAGE_ENTRIES = 1_000;

/** The log of one tablet as one leader writes it. The log alone decides who may write. */
export class TabletLog {
  readonly #server: DocumentServer;
  readonly #tabletName: string;
  readonly #collection: string;
  readonly #patience: Patience;
  readonly #turns = new OneAtATime();
  /** The number of the own entry that was appended last. */
  #last = 0;
  #claim: OwnClaim | undefined;
  /** Why nothing more can be appended: what the last try did is not known, or somebody else has the number. */
  #failure: unknown;

  constructor({ server, tabletName, patience }: LogOptions) {
    this.#server = server;
    this.#tabletName = tabletName;
    this.#collection = `${tabletName}.log`;
    this.#patience = patience;
  }

  get claimed(): OwnClaim {
    if (this.#claim === undefined)
      throw new InvalidStateError(`tablet ${this.#tabletName} is used before it was claimed`);
    return this.#claim;
  }

  /** Takes the next generation. Undefined when another candidate got in between. */
  async claim(writer: string, address: string): Promise<OwnClaim | undefined> {
    let claim: OwnClaim;
    do {
      const last = await this.#lastEntry();
      // Read after the last entry: of what came before that none is missing.
      const lastClaim = last === undefined ? undefined : await this.#lastClaim();
      const previousGeneration = last?.generation ?? 0;
      claim = {
        _id: (last?._id ?? 0) + 1,
        generation: previousGeneration + 1,
        writer,
        kind: "claim",
        previousGeneration,
        tabletId: lastClaim?.tabletId ?? randomUUID(),
        incarnation: lastClaim?.incarnation ?? randomUUID(),
        parentIncarnations: lastClaim?.parentIncarnations ?? [],
        address,
      };
    } while ((await this.#insert(claim)) !== undefined);
    // Its number may have been chosen long ago, from a part of the log that has been applied and deleted since.
    if ((await this.#lastEntry())?._id !== claim._id) return undefined;
    this.#claim = claim;
    this.#last = claim._id;
    return claim;
  }

  /** Throws FencedError when a newer leader has claimed. */
  async refuseFenced(): Promise<void> {
    const last = await this.#lastEntry();
    const { generation } = this.claimed;
    if (last !== undefined && last.generation > generation) throw fenced(this.#tabletName, last, generation);
  }

  /** Appends directly after the own last entry; FencedError when a newer leader has claimed that number. */
  async append(entry: NewEntry, giveUpAfterMs?: number): Promise<void> {
    await this.#turns.run(() => this.#append(entry, giveUpAfterMs));
  }

  /** Appends and, before anything else is appended, tells the number. */
  appendAnd(entry: NewEntry, then: (number: number) => void): Promise<void> {
    return this.#turns.run(async () => then(await this.#append(entry)));
  }

  /**
   * Claims again, as another writer, directly after the own last entry, a generation above the own one and `above`:
   * nothing that was sent as the old writer and arrives from now on is believed. Nothing is appended while `handLease`
   * runs.
   */
  claimAgain(
    { writer, from, above }: { readonly writer: string; readonly from: number; readonly above: number },
    handLease: () => Promise<void>,
    then: (number: number) => void,
  ): Promise<void> {
    return this.#turns.run(async () => {
      await handLease();
      const { kind, tabletId, incarnation, parentIncarnations, address, generation } = this.claimed;
      this.#claim = { ...this.claimed, writer, generation: Math.max(generation, above) + 1 };
      const fields = { kind, previousGeneration: generation, tabletId, incarnation, parentIncarnations, address };
      const claim = await this.#append(fields, FOREVER_MS);
      this.#claim = { ...this.claimed, ...fields, _id: claim };
      await this.#append({ kind: "load", from, claim }, FOREVER_MS);
      then(claim);
    });
  }

  /** Entries of these kinds with numbers in between, in order. */
  async *entries<Kind extends Entry["kind"]>(
    kinds: readonly Kind[],
    { after, below }: { readonly after: number; readonly below?: number | undefined },
  ): AsyncGenerator<Extract<Entry, { kind: Kind }>> {
    for (let last = after; ; ) {
      const range = { after: last, below, kinds, limit: PAGE_ENTRIES };
      const page = await this.#patience.answerOf(() => this.#server.find(this.#collection, range));
      for (const entry of page) yield entry as unknown as Extract<Entry, { kind: Kind }>;
      if (page.length < PAGE_ENTRIES) return;
      last = page.at(-1)?._id as number;
    }
  }

  /** Deletes what is in the view. Claims and loads stay for ever: they are what an old leader runs into. */
  async deleteApplied(upTo: number): Promise<void> {
    await this.#server.delete(this.#collection, { below: upTo + 1, kinds: ["commit", "checkpoint"] });
  }

  async #append(fields: NewEntry, giveUpAfterMs?: number): Promise<number> {
    if (this.#failure !== undefined) throw this.#failure;
    const { generation, writer } = this.claimed;
    const entry: Entry = { _id: this.#last + 1, generation, writer, ...fields };
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

  /** Returns the other writer's entry that has the number, if there is one. */
  async #insert(entry: Entry, giveUpAfterMs?: number): Promise<Entry | undefined> {
    const document = entry as unknown as StoredDocument;
    for (;;) {
      const inserted = await this.#patience.answerOf(
        () => this.#server.insert(this.#collection, document),
        giveUpAfterMs,
      );
      if (inserted) return undefined;
      const stored = await this.#get(entry._id, giveUpAfterMs);
      // Nothing: it was deleted since, or is not yet safe from a change of the primary.
      if (stored !== undefined) return stored.writer === entry.writer ? undefined : stored;
    }
  }

  /** All claims are those of one tablet; who is the latest, and whether it leads, does not matter here. */
  async #lastClaim(): Promise<ClaimEntry> {
    const [first, last] = [await this.#get(1), await this.#lastEntry(["claim"])];
    if (first?.kind === "claim" && last?.kind === "claim") return last;
    throw new InvalidStateError(
      `${this.#collection} in MongoDB at ${this.#server.name} does not begin with a claim; restore it from a backup`,
    );
  }

  async #get(number: number, giveUpAfterMs?: number): Promise<Entry | undefined> {
    const stored = await this.#patience.answerOf(() => this.#server.get(this.#collection, number), giveUpAfterMs);
    return stored as unknown as Entry | undefined;
  }

  async #lastEntry(kinds?: readonly Entry["kind"][]): Promise<Entry | undefined> {
    const range = { limit: 1, descending: true, kinds };
    const [last] = await this.#patience.answerOf(() => this.#server.find(this.#collection, range));
    return last as unknown as Entry | undefined;
  }
}

function fenced(tabletName: string, by: Entry, ownGeneration: number): FencedError {
  const who = by.kind === "claim" ? by.address : "another process";
  return new FencedError(
    `tablet ${tabletName} has been claimed by ${who} with generation ${by.generation}; this process has generation ${ownGeneration}`,
  );
}
