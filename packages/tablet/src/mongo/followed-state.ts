import { InvalidStateError } from "@diskmesh/domain";
import { StateSums, type StoredSums, type Versioned } from "../checksums.js";
import { CURE, FORMAT_KEY, FORMAT_TABLE } from "../format.js";
import type { Fields, StoredDocument } from "./document-server.js";
import { type DecodedDocument, decodeDocument } from "./encoding.js";
import type { ClaimEntry, CommitEntry, Entry, LoadEntry } from "./log.js";

/** New content of documents, by table and id; null means deleted. */
export type Outcomes = Map<string, Map<string, Fields | null>>;

/** Map by table and id. */
class Placed<T> {
  readonly byTable = new Map<string, Map<string, T>>();

  of(table: string): Map<string, T> {
    let byId = this.byTable.get(table);
    if (byId === undefined) {
      byId = new Map();
      this.byTable.set(table, byId);
    }
    return byId;
  }
}

/**
 * A tablet's state, computed from its view and its log: the view's documents in any order, while its leader goes on,
 * together with every log entry after a checkpoint, in order. For each document the log wins. Once the whole view was
 * added, this is the state as of the last entry, and further entries keep it current.
 */
export class FollowedState {
  readonly #documents = new Placed<DecodedDocument>();
  readonly #sums = new StateSums();
  /** Expected sums as of the last entry; undefined as long as only the first release has written. */
  #expected: StoredSums | undefined;
  /** Documents that the log has mentioned so far; kept only while the view is being added. */
  #told: Placed<true> | undefined = new Placed();
  /** Documents that dead leaders left in the view and that no entry has replaced since. */
  readonly #leftovers = new Placed<null>();
  /** Document of the view with the highest number. */
  #newest = { table: "", id: "", seq: 0 };
  readonly #isLeftover: (seq: number) => boolean;
  #checkpoint: number;
  /** Commits after the checkpoint. */
  #unapplied: CommitEntry[] = [];
  /** Collections in the view that are no tables of this version. */
  readonly #strays: string[] = [];
  #last: Pick<Entry, "generation" | "writer"> | undefined;
  #lastNumber: number;
  readonly #where: string;

  /** `loads` are all loads in the log from `firstNumber` on, where the incarnation begins. `where` is for messages. */
  constructor(
    checkpoint: number,
    loads: readonly Pick<LoadEntry, "from" | "claim">[],
    where: string,
    readonly firstNumber = 1,
  ) {
    this.#where = where;
    this.#checkpoint = checkpoint;
    this.#lastNumber = checkpoint;
    // Documents covered by a later load are in the log entries to be added.
    const covered = loads.filter(({ claim }) => claim <= checkpoint);
    this.#isLeftover = leftoverTest(covered, firstNumber);
  }

  /** Number of the newest log entry such that the view contains it and all earlier entries. */
  get checkpoint(): number {
    return this.#checkpoint;
  }

  /** Number of the last entry that was added. */
  get lastNumber(): number {
    return this.#lastNumber;
  }

  get isComplete(): boolean {
    return this.#told === undefined;
  }

  /**
   * Adds the next entry of the log. Returns false and adds nothing when the entry does not follow the last one. The
   * entries in between were then applied and deleted; or the entry is the claim of a candidate that came too late, at a
   * number that had been deleted; or it is the first of a restored incarnation.
   */
  append(entry: Entry): boolean {
    if (!this.#isNext(entry)) return false;
    this.#last = { generation: entry.generation, writer: entry.writer };
    this.#lastNumber = entry._id;
    if (entry.kind !== "claim") this.#expected = entry.sums;
    if (entry.kind === "commit") this.#commit(entry);
    if (entry.kind === "checkpoint" && entry.upTo > this.#checkpoint) {
      this.#checkpoint = entry.upTo;
      this.#unapplied = this.#unapplied.filter(({ _id }) => _id > entry.upTo);
    }
    return true;
  }

  /** Returns true when nothing is missing up to that claim and nothing has come after it. */
  isUpTo(claim: ClaimEntry): boolean {
    const isLast = claim._id === this.#lastNumber && claim.writer === this.#last?.writer;
    return isLast || this.#isNext(claim);
  }

  addFromView(table: string, id: string, seq: number, stored: StoredDocument): void {
    if (seq > this.#newest.seq) this.#newest = { table, id, seq };
    if (this.#told?.of(table).has(id)) return;
    if (this.#isLeftover(seq)) this.#leftovers.of(table).set(id, null);
    else this.#put(table, id, stored);
  }

  /** Notes a collection of the view that is not added, because no table has its name. */
  leaveOut(table: string): void {
    this.#strays.push(table);
  }

  get strays(): readonly string[] {
    return this.#strays;
  }

  endView(): void {
    this.#told = undefined;
  }

  get sums(): StateSums {
    return this.#sums;
  }

  /**
   * Describes the error in a state to which the whole view was added, up to the own claim if given; undefined when
   * there is none.
   */
  difference(claim: Pick<ClaimEntry, "_id"> = { _id: Number.POSITIVE_INFINITY }): string | undefined {
    const expected = this.#expected;
    // A tablet without sums is new or of the first release; then nothing excludes that an unknown collection is one of
    // its tables.
    const known = expected ?? this.#sums.stored();
    const isTold = expected !== undefined || Object.keys(known).length === 0;
    const unknown = this.#strays.find((table) => !isTold || Object.hasOwn(known, table));
    if (unknown !== undefined)
      return `table ${JSON.stringify(unknown)} is none that this version knows; run the version that wrote it`;
    const difference = expected && this.#sums.differenceFrom(expected);
    const { table, id, seq } = this.#newest;
    if (difference !== undefined || seq <= claim._id) return difference;
    // A later commit would not replace such a document.
    return `document ${JSON.stringify(id)} of table ${table} has number ${seq}, above that of the own claim, ${claim._id}: log and tables were copied at different moments`;
  }

  /** Document that keeps programs of the first release out. */
  get formatDocument(): Versioned | undefined {
    return this.#documents.of(FORMAT_TABLE).get(FORMAT_KEY);
  }

  *documents(): Generator<readonly [table: string, id: string, stored: Versioned]> {
    for (const [table, byId] of this.#documents.byTable) {
      if (table === FORMAT_TABLE) continue;
      for (const [id, stored] of byId) yield [table, id, stored];
    }
  }

  get size(): number {
    let size = 0;
    for (const byId of this.#documents.byTable.values()) size += byId.size;
    return size;
  }

  get tables(): string[] {
    return [...this.#documents.byTable.keys()];
  }

  keys(table: string): string[] {
    return [...(this.#documents.byTable.get(table)?.keys() ?? [])];
  }

  /** Returns the same object until the document changes. */
  get(table: string, id: string): DecodedDocument | undefined {
    return this.#documents.byTable.get(table)?.get(id);
  }

  /** Number of the last commit that may not be in the view yet; 0 when all are. */
  get lastUnapplied(): number {
    return this.#unapplied.at(-1)?._id ?? 0;
  }

  /** Returns the writes that bring the view up to date. Leftovers are deleted from it. */
  outcomes(): Outcomes {
    const outcomes = new Placed<Fields | null>();
    for (const [table, byId] of this.#leftovers.byTable) for (const id of byId.keys()) outcomes.of(table).set(id, null);
    for (const { changes } of this.#unapplied) {
      for (const { table, id, document } of changes) outcomes.of(table).set(id, document);
    }
    return outcomes.byTable;
  }

  #commit(entry: CommitEntry): void {
    this.#unapplied.push(entry);
    for (const { table, id, document } of entry.changes) {
      this.#told?.of(table).set(id, true);
      this.#leftovers.of(table).delete(id);
      if (document === null) this.#remove(table, id);
      else this.#put(table, id, document);
    }
  }

  #put(table: string, id: string, fields: Fields): void {
    const decoded = decodeDocument(table, id, fields);
    if (!decoded.isIntact) {
      throw new InvalidStateError(
        `${this.#where}: document ${JSON.stringify(id)} of table ${table} was changed by something else than diskmesh; ${CURE}`,
      );
    }
    this.#remove(table, id);
    this.#documents.of(table).set(id, decoded);
    this.#sums.add(table, decoded.checksum);
  }

  #remove(table: string, id: string): void {
    const decoded = this.#documents.of(table).get(id);
    if (decoded === undefined) return;
    this.#documents.of(table).delete(id);
    this.#sums.remove(table, decoded.checksum);
  }

  #isNext(entry: Entry): boolean {
    const { _id, generation, writer } = entry;
    if (_id !== this.#lastNumber + 1) return false;
    // The entry at the checkpoint may be gone. If the first entry is merely a late claim, the second one reveals that.
    if (this.#last === undefined) return true;
    if (entry.kind === "claim") return (entry.previousGeneration ?? generation - 1) === this.#last.generation;
    return generation === this.#last.generation && writer === this.#last.writer;
  }
}

/**
 * Returns a test that tells leftovers of dead leaders from documents that belong in the view. A leader that loaded
 * everything from a checkpoint up to its claim wrote the outcome of all entries in between anew, with the number of its
 * claim or higher. Once that is in the view, a number in between is a write that arrived late. `loads` are the loads
 * whose outcome is in the view.
 */
export function leftoverTest(
  loads: readonly { readonly from: number; readonly claim: number }[],
  firstNumber: number,
): (seq: number) => boolean {
  const earlierIncarnations = { from: 0, claim: firstNumber };
  // Thousands of restarts times millions of documents would be slow, so loads are merged into few spans, in order.
  const spans: { after: number; before: number }[] = [];
  for (const { from, claim } of [earlierIncarnations, ...loads].sort((a, b) => a.from - b.from)) {
    const last = spans.at(-1);
    if (claim - from < 2) continue;
    if (last !== undefined && from < last.before) last.before = Math.max(last.before, claim);
    else spans.push({ after: from, before: claim });
  }
  return (seq) => {
    let [low, high] = [0, spans.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((spans[middle] as { before: number }).before <= seq) low = middle + 1;
      else high = middle;
    }
    return low < spans.length && (spans[low] as { after: number }).after < seq;
  };
}
