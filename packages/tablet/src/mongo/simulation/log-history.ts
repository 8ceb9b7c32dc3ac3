import { FORMAT_TABLE } from "../../storage/format.js";
import { decodeDocument } from "../encoding.js";
import type { ClaimEntry, CommitEntry, Entry } from "../log.js";

/** An invariant was violated. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/**
 * All entries that a log ever accepted, including deleted ones. Throws when two different entries had the same number,
 * or when a leader's commit follows another process's claim.
 */
export class LogHistory {
  #entries = new Map<number, { readonly json: string; readonly entry: Entry }>();
  readonly #committed = new Set<string>();
  /** Highest claimed generation. */
  #generation = 0;
  #life: string | undefined;
  #firstNumber = 1;
  #awaitsRestore = false;
  /** Process with an unfinished restore. */
  #restoring: string | undefined;

  /** True from a drop of the database until a restore has claimed; services do not run in between. */
  get awaitsRestore(): boolean {
    return this.#awaitsRestore;
  }

  drop(): void {
    this.#entries.clear();
    this.#generation = 0;
    this.#life = undefined;
    this.#restoring = undefined;
    this.#firstNumber = 1;
    this.#awaitsRestore = true;
  }

  /** Adds an entry. `isLast` is false when the log already has a higher number. */
  add(entry: Entry, isLast: boolean): void {
    // A claimant that was suspended after it chose its number may claim at a deleted number. It then finds later
    // entries and gives up.
    if (entry.kind === "claim" && !isLast) return;
    const json = JSON.stringify(entry);
    const before = this.#entries.get(entry._id);
    if (before !== undefined) {
      if (before.json === json) return;
      throw new Violation(`two entries at ${entry._id}: ${before.json} and ${json}`);
    }
    if (entry.kind === "claim") this.#checkClaim(entry);
    else if (this.#claimBefore(entry._id)?.writer !== entry.writer || entry._id < this.#firstNumber)
      throw new Violation(`${json} was accepted from a leader that another one had fenced`);
    this.#entries.set(entry._id, { json, entry });
    if (entry.kind === "commit") for (const transaction of transactionsIn(entry)) this.#committed.add(transaction);
  }

  /** Adds a late entry of a process that led before the database was dropped. */
  addFormer(entry: Entry): void {
    if (entry.kind === "commit") for (const transaction of transactionsIn(entry)) this.#committed.add(transaction);
    if (!this.#awaitsRestore && entry._id >= this.#firstNumber)
      throw new Violation(`number ${entry._id} of a dropped log is one of the restored log, from ${this.#firstNumber}`);
  }

  /**
   * Returns the documents that a claim must load: the result of all commits before it, from the start of its
   * incarnation.
   */
  foldBefore(claim: number): Map<string, unknown> {
    const state = new Map<string, unknown>();
    let incarnation: string | undefined;
    const entries = [...this.#entries.values()].map(({ entry }) => entry).filter(({ _id }) => _id <= claim);
    for (const entry of entries.sort((a, b) => a._id - b._id)) {
      if (entry.kind === "claim" && entry.incarnation !== incarnation) {
        state.clear();
        incarnation = entry.incarnation;
      }
      if (entry.kind !== "commit") continue;
      for (const { table, id, document } of entry.changes) {
        if (table === FORMAT_TABLE) continue;
        if (document === null) state.delete(`${table}/${id}`);
        else state.set(`${table}/${id}`, decodeDocument(table, id, document).document);
      }
    }
    return state;
  }

  hasCommitted(transaction: string): boolean {
    return this.#committed.has(transaction);
  }

  #claimBefore(number: number): ClaimEntry | undefined {
    let latest: ClaimEntry | undefined;
    for (const { entry } of this.#entries.values()) {
      if (entry.kind === "claim" && entry._id < number && entry._id > (latest?._id ?? 0)) latest = entry;
    }
    return latest;
  }

  /** Checks a claim at a new number: agents identify leaders by generation, so generations must be unique. */
  #checkClaim({ generation, writer, incarnation, tabletId, firstNumber, isRestore }: ClaimEntry): void {
    const life = `${tabletId} ${incarnation}`;
    // Writer ids of one process differ in the part after the dot.
    const [process] = writer.split(".");
    // Two concurrent restores claim in their own incarnations, with generations based on their backups, so the later
    // claim may have the lower generation. Entries of a dropped log may arrive in between.
    const isBesideAnother = isRestore && this.#restoring !== undefined && this.#restoring !== process;
    const lowest = isBesideAnother ? 0 : isRestore ? this.#generation : this.#generation + 1;
    if (generation < lowest) throw new Violation(`generation ${generation} after ${this.#generation}`);
    this.#generation = generation;
    this.#firstNumber = firstNumber ?? 1;
    if (!isRestore && this.#restoring !== undefined && this.#restoring !== process)
      throw new Violation(`${process} claims what ${this.#restoring} has restored in part`);
    this.#restoring = isRestore ? process : undefined;
    if (isRestore) this.#awaitsRestore = false;
    if (incarnation === undefined) return;
    if (!isRestore && this.#life !== undefined && this.#life !== life)
      throw new Violation(`a claim of ${life} in the tablet ${this.#life}`);
    this.#life = life;
  }
}

function transactionsIn({ changes }: CommitEntry): readonly string[] {
  return changes.flatMap(({ table, document }) => (table === "head" ? (document?.pending as string[]) : []));
}
