import { messageOf } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../clock.js";
import type { Files } from "./files.js";
import { type Journal, JournalFolder } from "./journal-folder.js";
import { LineFiles } from "./line-file.js";
import { verifyJournals } from "./load-journals.js";

/** The view of a database is checked as often. A check reads what a start reads, a mebibyte at a time. */
const CHECK_INTERVAL_MS = 60 * 60_000;
const CURE = "nothing is lost: a snapshot of what is in memory replaces the file; check the disk";

export interface FileCheckOptions {
  readonly folder: string;
  readonly files: Files;
  readonly clock: TabletClock;
  readonly signal: AbortSignal;
  /** The journal that this process appends to. */
  readonly journal: () => Journal | undefined;
  readonly onDamage: (text: string) => void;
}

/** Reads the files of a tablet that is in use at an interval, as the next start would, until the signal is aborted. */
export async function keepFilesChecked({ folder, files, clock, signal, ...options }: FileCheckOptions): Promise<void> {
  const checked = new JournalFolder(new LineFiles(files, "tablet", CURE), folder);
  const snapshot = () => checked.numbers("snapshot").at(-1);
  while (!signal.aborted) {
    await sleep(clock, CHECK_INTERVAL_MS, signal).catch(() => {});
    const journal = options.journal();
    if (signal.aborted || journal === undefined) return;
    const before = snapshot();
    try {
      await verifyJournals(checked, journal);
    } catch (error) {
      // A snapshot that was made meanwhile has removed files that it replaces.
      if (!signal.aborted && snapshot() === before) options.onDamage(messageOf(error));
    }
  }
}
