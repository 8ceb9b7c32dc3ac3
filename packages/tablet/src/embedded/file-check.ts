import { messageOf } from "@diskmesh/domain";
import { sleep, type TabletClock } from "../clock.js";
import type { Files } from "./files.js";
import { type Journal, JournalFolder } from "./journal-folder.js";
import { LineFiles } from "./line-file.js";
import { verifyJournals } from "./load-journals.js";
import { isNoDamage } from "./open-error.js";

/** Long, because a check reads as much as a start does. */
const CHECK_INTERVAL_MS = 60 * 60_000;
const CURE = "nothing is lost: a snapshot of what is in memory replaces the file; check the disk";

export interface FileCheckOptions {
  readonly folder: string;
  readonly files: Files;
  readonly clock: TabletClock;
  readonly signal: AbortSignal;
  /** Returns the journal that this process appends to. */
  readonly journal: () => Journal | undefined;
  readonly onDamage: (text: string) => void;
}

/** Reads the files of an open tablet periodically, like the next start would, until the signal aborts. */
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
      // A snapshot that was made meanwhile has removed the files that it replaces, which is no damage.
      if (!signal.aborted && !isNoDamage(error) && snapshot() === before) options.onDamage(messageOf(error));
    }
  }
}
