import { InvalidStateError } from "@diskmesh/domain";
import { collecting, type OnDamage } from "./damage.js";
import type { JournalFolder, ReadHead, StoredClaim, UpTo } from "./journal-folder.js";
import { type JournalPlace, snapshotHead } from "./snapshot-file.js";

/** A journal, and the place up to which it counts. */
export interface Part {
  readonly number: number;
  readonly upTo: UpTo;
}

/** A part of a chain. */
interface ChainedPart extends Part {
  /** False when its first line is damaged, so that the rest of the file cannot be trusted. */
  readonly isIntact: boolean;
}

/** The snapshot on top of which journals are read. */
interface Base {
  readonly number: number;
  /** False when its first line is damaged or belongs to another journal. */
  readonly isIntact: boolean;
  /** See SnapshotHead; undefined for format 3. */
  readonly until: JournalPlace | undefined;
}

/** The files that hold a tablet's state. */
export interface Chain {
  /** Undefined when the journals begin with the tablet's first one. */
  readonly snapshot: Base | undefined;
  /** Journals since the snapshot, oldest first. */
  readonly parts: readonly ChainedPart[];
  /** False when journals between the snapshot and the first part are missing. */
  readonly isComplete: boolean;
  /** Latest claim in an intact head. */
  readonly claim: StoredClaim | undefined;
}

/**
 * Finds the snapshot, and the journals since then up to `last` by following the links in their heads. When `onDamage`
 * returns, continues behind an unreadable head with the highest journal below it.
 */
export async function chainTo(folder: JournalFolder, last: Part, onDamage: OnDamage): Promise<Chain> {
  const base = folder.numbers("snapshot").at(-1);
  const parts: ChainedPart[] = [];
  let part = last;
  let later: ReadHead | undefined;
  let claim: StoredClaim | undefined;
  for (;;) {
    const { number, upTo } = part;
    const head = await collecting(onDamage, () => intactHead(folder, number, upTo, later));
    parts.unshift({ number, upTo, isIntact: head !== undefined });
    claim ??= head?.claim;
    if (number === base)
      return { snapshot: await baseOf(folder, number, head, onDamage), parts, claim, isComplete: true };
    if (head !== undefined && head.previous === undefined && base === undefined)
      return { snapshot: undefined, parts, claim, isComplete: true };
    const previous = previousOf(folder, number, head);
    if (previous === undefined || previous.number < (base ?? 0)) {
      const missing = folder.path("journal", base ?? number - 1);
      // The damage of an unreadable head is known already.
      if (head !== undefined)
        onDamage(new InvalidStateError(`${missing} is missing in the chain of journals: ${folder.lines.cure}`));
      const snapshot = base === undefined ? undefined : await baseOf(folder, base, undefined, onDamage);
      return { snapshot, parts, claim, isComplete: false };
    }
    part = previous;
    later = head;
  }
}

/** Returns the head of a journal. Throws InvalidStateError for damage, or when `later` shows that it is another file. */
async function intactHead(
  folder: JournalFolder,
  number: number,
  upTo: UpTo,
  later: ReadHead | undefined,
): Promise<ReadHead> {
  const head = await folder.headOf(number, upTo);
  const path = folder.path("journal", number);
  if (head === undefined) throw folder.lines.damaged(path, 0, "its first line is missing");
  if (later === undefined || later.isChained || !head.isChained) return head;
  throw folder.lines.damaged(folder.path("journal", later.number), 0, "it is older than the journal before it");
}

/** Returns the journal before another one; undefined when there is none. */
export function previousOf(folder: JournalFolder, number: number, head: ReadHead | undefined): Part | undefined {
  if (head !== undefined) {
    const { previous, end, sum } = head;
    // A file of the first release does not state its number, so a renamed one could refer to itself.
    const isBefore = previous !== undefined && previous < number;
    return isBefore && end !== undefined ? { number: previous, upTo: { end, sum } } : undefined;
  }
  const below = folder.numbers("journal").findLast((other) => other < number);
  return below === undefined ? undefined : { number: below, upTo: undefined };
}

async function baseOf(
  folder: JournalFolder,
  number: number,
  journal: ReadHead | undefined,
  onDamage: OnDamage,
): Promise<Base> {
  let isIntact = true;
  const head = await collecting(
    (damage) => {
      isIntact = false;
      onDamage(damage);
    },
    async () => {
      const found = await snapshotHead(folder, number);
      if (journal === undefined || found?.journalSum === (journal.isChained ? journal.headSum : undefined))
        return found;
      throw folder.lines.damaged(folder.path("snapshot", number), 0, "it is not the snapshot of this journal");
    },
  );
  return { number, isIntact, until: head?.until };
}
