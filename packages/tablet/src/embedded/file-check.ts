import { setImmediate } from "node:timers/promises";
import { messageOf } from "@diskmesh/domain";
import { checksumInAnyOrder, StateSums, type StoredSums } from "../documents/checksums.js";
import { sleep, type TabletClock } from "../storage/clock.js";
import type { Snapshot } from "../storage/storage.js";
import type { Files } from "./files.js";
import { type Journal, JournalFolder } from "./journal-folder.js";
import { LineFiles } from "./line-file.js";
import { loadJournals } from "./load-journals.js";
import { isNoDamage } from "./open-error.js";

/** Long, because a check reads as much as a start does. */
const CHECK_INTERVAL_MS = 60 * 60_000;
/** Interval and number of attempts to find a moment without a commit. */
const IDLE_INTERVAL_MS = 1_000;
const IDLE_ATTEMPTS = 60;
const PIECE_DOCUMENTS = 2_000;
const CURE = "nothing is lost: a snapshot of what is in memory replaces the file; check the disk";

export interface FileCheckOptions {
  readonly folder: string;
  readonly files: Files;
  readonly clock: TabletClock;
  readonly signal: AbortSignal;
  /** Returns the journal that this process appends to. */
  readonly journal: () => Journal | undefined;
  /** Returns the documents in memory; absent when the caller lends none. */
  readonly documents: Snapshot | undefined;
  readonly onDamage: (text: string) => void;
}

/** State in memory at a moment, and the place in the journals at that moment. */
interface Moment {
  readonly number: number;
  readonly upTo: { readonly end: number; readonly sum: number };
  /** Undefined when commits never paused. */
  readonly sums: StoredSums | undefined;
}

/**
 * Reads the files of an open tablet periodically, like the next start would, and compares their state with the one in
 * memory, until the signal aborts.
 */
export async function keepFilesChecked(options: FileCheckOptions): Promise<void> {
  const { folder, files, clock, signal, onDamage } = options;
  const checked = new JournalFolder(new LineFiles(files, "tablet", CURE), folder);
  const snapshot = () => checked.numbers("snapshot").at(-1);
  while (!signal.aborted) {
    await sleep(clock, CHECK_INTERVAL_MS, signal).catch(() => {});
    const before = snapshot();
    const moment = await momentOf(options).catch(() => undefined);
    if (signal.aborted || moment === undefined) return;
    try {
      const difference = await differenceFrom(checked, moment);
      if (difference !== undefined)
        throw new Error(`${folder} holds another state than memory: ${difference}; ${CURE}`);
    } catch (error) {
      // A snapshot that was made meanwhile has removed the files that it replaces, which is no damage.
      if (!signal.aborted && !isNoDamage(error) && snapshot() === before) onDamage(messageOf(error));
    }
  }
}

/**
 * Waits for a moment at which no commit is under way, when memory and journals hold the same state. Resolves with
 * undefined when the storage is closed.
 */
async function momentOf({ clock, signal, journal, documents }: FileCheckOptions): Promise<Moment | undefined> {
  for (let attempt = 1; ; attempt++) {
    const before = journal();
    if (signal.aborted || before === undefined) return undefined;
    const upTo = { end: before.file.sizeBytes, sum: before.file.sum };
    const held = documents === undefined ? [] : await documents();
    const isIdle = journal() === before && before.file.sizeBytes === upTo.end;
    if (documents === undefined || attempt === IDLE_ATTEMPTS || isIdle)
      return { number: before.number, upTo, sums: documents && isIdle ? await sumsOf(held) : undefined };
    await sleep(clock, IDLE_INTERVAL_MS, signal);
  }
}

async function sumsOf(documents: Awaited<ReturnType<Snapshot>>): Promise<StoredSums> {
  const sums = new StateSums();
  let count = 0;
  for (const { table, key, ...stored } of documents) {
    sums.add(table, checksumInAnyOrder(table, key, stored));
    if (++count % PIECE_DOCUMENTS === 0) await setImmediate();
  }
  return sums.stored();
}

/** Rejects with InvalidStateError for damage; resolves with a description of other contents than in memory. */
async function differenceFrom(folder: JournalFolder, { number, upTo, sums }: Moment): Promise<string | undefined> {
  const found = new StateSums();
  await loadJournals(folder, { number, upTo }, (table, key, stored) =>
    found.add(table, checksumInAnyOrder(table, key, stored)),
  );
  return sums && found.differenceFrom(sums);
}
