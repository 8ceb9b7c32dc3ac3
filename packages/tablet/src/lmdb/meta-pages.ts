import { readSync } from "node:fs";
import {
  damagedPage,
  ENCRYPTED,
  HEAD,
  MAGIC,
  META,
  PAGE_FLAGS,
  TREE_FLAGS,
  type Tree,
  treeAt,
  uint16At,
  uint32At,
  uint64At,
  VERSION,
} from "./file-layout.js";

/** How far the pages of a file may go beyond its end: those that were freed before they were written. */
const MISSING_PAGES_SHARE = 64;
const PAGE_SIZES_BYTES = [4_096, 8_192, 16_384, 32_768, 65_536];

/** Where the latest snapshot of a file begins, by one of its two meta pages. */
export interface Snapshot {
  readonly pageSizeBytes: number;
  readonly lastPage: number;
  /** The one that made it. They are counted. */
  readonly transaction: number;
  readonly freeTree: Tree;
  readonly mainTree: Tree;
}

/**
 * The snapshot that LMDB would open. Throws when a meta page is damaged, since lmdb does not survive it when LMDB says so.
 */
export function latestSnapshot(file: number, fileSizeBytes: number): Snapshot {
  const first = metaAt(file, 0);
  if (!isMeta(first)) throw new Error("data.mdb is not a database file, or its page 0 is damaged");
  const pageSizeBytes = uint32At(first, META.pageSize);
  if (!PAGE_SIZES_BYTES.includes(pageSizeBytes)) throw damagedPage(0, `it tells of pages of ${pageSizeBytes} bytes`);
  if (fileSizeBytes < 2 * pageSizeBytes) throw damagedPage(1, "the file ends before it does");
  const second = metaAt(file, pageSizeBytes);
  // Most of what makes it one LMDB looks at in the first one only, and never writes again.
  if (!isMeta(second)) throw damagedPage(1, "it is not a meta page");
  const [even, odd] = [uint64At(first, META.transaction), uint64At(second, META.transaction)];
  const [page, meta, transaction, previous] = even >= odd ? [0, first, even, odd] : [1, second, odd, even];
  // Transactions take turns with the pages. By other numbers LMDB would open another snapshot than the latest, or a mix.
  if (transaction % 2 !== page || previous !== Math.max(0, transaction - 1) || !Number.isSafeInteger(transaction))
    throw new Error(`data.mdb is damaged: pages 0 and 1 are of transactions ${even} and ${odd}`);
  return snapshotOf(meta, page, pageSizeBytes, fileSizeBytes);
}

function snapshotOf(meta: Buffer, page: number, pageSizeBytes: number, fileSizeBytes: number): Snapshot {
  const lastPage = uint64At(meta, META.lastPage);
  const wholeSizeBytes = (lastPage + 1) * pageSizeBytes;
  if (uint32At(meta, META.pageSize) !== pageSizeBytes) throw damagedPage(page, "it tells of pages of another size");
  if (lastPage < 1 || fileSizeBytes < wholeSizeBytes / MISSING_PAGES_SHARE)
    throw damagedPage(page, `the file has ${fileSizeBytes} bytes, and by this page ${wholeSizeBytes}`);
  return {
    pageSizeBytes,
    lastPage,
    transaction: uint64At(meta, META.transaction),
    freeTree: treeAt(meta, META.freeTree, page, TREE_FLAGS.freePages),
    mainTree: treeAt(meta, META.mainTree, page, TREE_FLAGS.bytes),
  };
}

function metaAt(file: number, position: number): Buffer {
  const meta = Buffer.alloc(META.sizeBytes);
  readSync(file, meta, 0, META.sizeBytes, position);
  return meta;
}

function isMeta(meta: Buffer): boolean {
  return (
    uint16At(meta, HEAD.flags) === PAGE_FLAGS.meta &&
    uint32At(meta, META.magic) === MAGIC &&
    uint32At(meta, META.version) === VERSION &&
    (uint16At(meta, META.fileFlags) & ENCRYPTED) === 0
  );
}
