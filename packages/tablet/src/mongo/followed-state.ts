import { InvalidStateError } from "@diskmesh/domain";
import { StateSums, type StoredSums, type Versioned } from "../documents/checksums.js";
import { CURE, FORMAT_KEY, FORMAT_TABLE } from "../storage/format.js";
import type { Fields, StoredDocument } from "./document-server.js";
import { type DecodedDocument, decodeDocument } from "./encoding.js";
import type { ClaimEntry, CommitEntry, Entry, LoadEntry } from "./log.js";

/** Latest content of changed documents by table and id; null means deleted. */
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
 * A tablet's state, computed from the documents of its view, in any order, and all log entries after a checkpoint, in
 * order. The leader may write meanwhile. Where view and log disagree about a document, the log wins. Once the whole
 * view was added, this is the state as of the last entry; further entries keep it current.
 */
export class FollowedState {
  readonly #documents = new Placed<DecodedDocument>();
  readonly #sums = new StateSums();
  /**
   * Sums of the last entry, which the documents must match; undefined when another program removed them. A tablet that
   * nobody has loaded yet is empty.
   */
  #expected: StoredSums | undefined = {};
  /** Documents that log entries have set so far, which the view must not override. Kept only while the view is read. */
  #inLog: Placed<true> | undefined = new Placed();
  /** Documents of the view that late writes of dead leaders left and that no log entry has replaced since. */
  readonly #leftovers = new Placed<null>();
  /** Document of the view with the highest number. */
  #newest = { table: "", id: "", seq: 0 };
  readonly #isLeftover: (seq: number) => boolean;
  #checkpoint: number;
  /** Commit entries after the checkpoint, which may be missing from the view. */
  #unapplied: CommitEntry[] = [];
  /** Collections of the view that are no tables of this version. */
  readonly #unknownCollections: string[] = [];
  #last: Pick<Entry, "generation" | "writer"> | undefined;
  #lastNumber: number;
  readonly #where: string;

  /** `loads` are all load entries since `firstNumber`, with which the incarnation begins. `where` is for messages. */
  constructor(
    checkpoint: number,
    loads: readonly Pick<LoadEntry, "from" | "claim">[],
    where: string,
    readonly firstNumber = 1,
  ) {
    this.#where = where;
    this.#checkpoint = checkpoint;
    this.#lastNumber = checkpoint;
    // Ignores loads above the checkpoint, because the view may lack their outcome. That outcome is in log entries that
    // are still to be added.
    const covered = loads.filter(({ claim }) => claim <= checkpoint);
    this.#isLeftover = leftoverTest(covered, firstNumber);
  }

  /** Number of a log entry: the view contains all entries up to it. */
  get checkpoint(): number {
    return this.#checkpoint;
  }

  /** Number of the last entry that was added. */
  get lastNumber(): number {
    return this.#lastNumber;
  }

  get isComplete(): boolean {
    return this.#inLog === undefined;
  }

  /**
   * Adds the next entry of the log. Returns false without adding it when the entry does not follow the last one: the
   * entries in between were applied and deleted, or the entry is a late claim at a deleted number, or it begins a
   * restored incarnation.
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

  /** Returns true when the state includes all entries before the claim and no other claim came in between. */
  isUpTo(claim: ClaimEntry): boolean {
    const isLast = claim._id === this.#lastNumber && claim.writer === this.#last?.writer;
    return isLast || this.#isNext(claim);
  }

  addFromView(table: string, id: string, seq: number, stored: StoredDocument): void {
    if (seq > this.#newest.seq) this.#newest = { table, id, seq };
    if (this.#inLog?.of(table).has(id)) return;
    if (this.#isLeftover(seq)) this.#leftovers.of(table).set(id, null);
    else this.#put(table, id, stored);
  }

  /** Records a collection of the view that was not read, because no table has its name. */
  leaveOut(table: string): void {
    this.#unknownCollections.push(table);
  }

  get unknownCollections(): readonly string[] {
    return this.#unknownCollections;
  }

  endView(): void {
    this.#inLog = undefined;
  }

  get sums(): StateSums {
    return this.#sums;
  }

  /**
   * Describes the first error in a completely read state; undefined when there is none. With `claim`, this process's
   * claim, a document with a higher number than the claim is an error, too.
   */
  difference(claim: Pick<ClaimEntry, "_id"> = { _id: Number.POSITIVE_INFINITY }): string | undefined {
    const expected = this.#expected;
    if (expected === undefined) return "its last log entry has no sums";
    const unknown = this.#unknownCollections.find((table) => Object.hasOwn(expected, table));
    if (unknown !== undefined)
      return `table ${JSON.stringify(unknown)} is unknown to this version; run the version that wrote it`;
    const difference = this.#sums.differenceFrom(expected);
    const { table, id, seq } = this.#newest;
    if (difference !== undefined || seq <= claim._id) return difference;
    // A later commit of this process may have a lower number than such a document, and the server would ignore its
    // change.
    return `document ${JSON.stringify(id)} of table ${table} has number ${seq}, above number ${claim._id} of this process's claim: log and tables were copied at different moments`;
  }

  /** Document that says to people which format the database has. */
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

  /** Returns a document; the same object until the document changes. */
  get(table: string, id: string): DecodedDocument | undefined {
    return this.#documents.byTable.get(table)?.get(id);
  }

  /** Number of the last commit that may be missing from the view; 0 for none. */
  get lastUnapplied(): number {
    return this.#unapplied.at(-1)?._id ?? 0;
  }

  /** Returns the writes that bring the view up to date, including deletes of leftovers. */
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
      this.#inLog?.of(table).set(id, true);
      this.#leftovers.of(table).delete(id);
      if (document === null) this.#remove(table, id);
      else this.#put(table, id, document);
    }
  }

  #put(table: string, id: string, fields: Fields): void {
    const decoded = decodeDocument(table, id, fields);
    if (!decoded.isIntact) {
      throw new InvalidStateError(
        `${this.#where}: document ${JSON.stringify(id)} of table ${table} was changed by a program other than diskmesh; ${CURE}`,
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
    // The first entry after the checkpoint cannot be checked against its predecessor, which may be deleted, so it is
    // accepted. If it is a late claim (one written at the number of a deleted entry), the next entry does not continue
    // its generation and append() returns false.
    if (this.#last === undefined) return true;
    if (entry.kind === "claim") return entry.previousGeneration === this.#last.generation;
    return generation === this.#last.generation && writer === this.#last.writer;
  }
}

/**
 * Returns a test for leftovers: documents in the view that came from late writes of dead leaders. A leader that loaded
 * the state from a checkpoint up to its claim rewrites the outcome of all entries in between, with its claim's number
 * or higher. Once the rewritten documents are in the view, a document with a number in between is a late write. `loads`
 * are the loads whose outcome is in the view.
 */
export function leftoverTest(
  loads: readonly { readonly from: number; readonly claim: number }[],
  firstNumber: number,
): (seq: number) => boolean {
  const earlierIncarnations = { from: 0, claim: firstNumber };
  // Overlapping loads are merged into a few spans, because testing millions of documents against thousands of restarts
  // would be slow.
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
