import { closeSync, fstatSync, openSync } from "node:fs";
import { bytesAt, type Place } from "../place.js";
import { DataPages } from "./data-pages.js";
import { damagedPage, type Tree } from "./file-layout.js";
import { checkFreeList } from "./free-list.js";
import { latestSnapshot, type Snapshot } from "./meta-pages.js";
import { TreeCheck } from "./tree-check.js";

/** Called with each entry of a table. Both places are valid until this returns. */
export type OnEntry = (table: string, key: Place, value: Place) => void;

/**
 * Throws with the reason when a data file is damaged. LMDB trusts its file: it ends the process that maps a damaged one
 * by a signal, if not worse. Nobody may write to it meanwhile. All of it is read, so its entries can be had on the way:
 * what `onEntry` was called with counts once this resolves.
 */
export async function checkDataFile(path: string, onEntry?: OnEntry): Promise<void> {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    // As a process leaves it that ended when it had just made it.
    if (size === 0) return;
    const snapshot = latestSnapshot(file, size);
    await checkTrees(snapshot, new DataPages(file, size, snapshot), onEntry);
  } finally {
    closeSync(file);
  }
}

async function checkTrees(
  { transaction, freeTree, mainTree }: Snapshot,
  pages: DataPages,
  onEntry: OnEntry | undefined,
): Promise<void> {
  const meta = transaction % 2;
  const tables: { readonly tree: Tree; readonly page: number; readonly name: string }[] = [];
  const latest = Math.max(
    await new TreeCheck(pages, {
      onInteger: (freedBy, list, page) => {
        if (freedBy === 0 || freedBy > transaction)
          throw damagedPage(page, `it lists pages that transaction ${freedBy} freed, in a file of ${transaction}`);
        checkFreeList(bytesAt(list), page, pages);
      },
    }).check(freeTree, meta),
    await new TreeCheck(pages, { onTable: (tree, page, name) => tables.push({ tree, page, name }) }).check(
      mainTree,
      meta,
    ),
  );
  // Each one leaves its number on the pages that it wrote, up to a root.
  if (latest !== transaction)
    throw damagedPage(meta, `it is of transaction ${transaction}, and its latest pages are of ${latest}`);
  for (const { tree, page, name } of tables)
    await new TreeCheck(pages, { onEntry: onEntry && ((key, value) => onEntry(name, key, value)) }).check(tree, page);
  await pages.checkLargeValues();
}
