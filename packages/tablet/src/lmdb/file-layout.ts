/** How LMDB 0.9.90, the one in lmdb 3, lays out its file on 64-bit machines: what the checks of a data file read of it. */

/** Every page but those inside a large value begins with a head. Places within a page count from its end. */
export const HEAD = {
  pageNumber: 0,
  transaction: 8,
  flags: 18,
  lower: 20,
  upper: 22,
  pages: 20,
  sizeBytes: 24,
} as const;

export const PAGE_FLAGS = { branch: 1, leaf: 2, largeValue: 4, meta: 8 } as const;

/** The first two pages: where a snapshot of the file begins. */
export const META = {
  magic: 24,
  version: 28,
  pageSize: 48,
  freeTree: 48,
  fileFlags: 52,
  mainTree: 96,
  lastPage: 144,
  transaction: 152,
  sizeBytes: 160,
} as const;
export const MAGIC = 0xbeefc0de;
export const VERSION = 2;
/** Of the flags of the file. */
export const ENCRYPTED = 0x2000;

/** An entry of a page: its size or child, its flags, the size of its key, then both. They begin at even places. */
export const NODE = { flags: 4, keySize: 6, sizeBytes: 8 } as const;
export const NODE_FLAGS = { largeValue: 1, table: 2 } as const;

/** What the entry of a large value refers to it by. */
export const LARGE_VALUE = { page: 0, pages: 16, sizeBytes: 24 } as const;

/** The flags of a tree say how it is sorted; others of those of the free pages are about the file. */
export const TREE_FLAGS = { bytes: { mask: 0xffff, value: 0 }, freePages: { mask: 0x7e, value: 8 } } as const;

const TREE = { flags: 4, depth: 6, entries: 32, root: 40 } as const;
export const TREE_SIZE_BYTES = 48;
/** As LMDB's cursors bear it. */
const DEPTH_MAX = 31;

/** A tree of pages: the free pages, the names of the tables, or one table. */
export interface Tree {
  /** 0 for an empty one, 1 for a single leaf. */
  readonly depth: number;
  readonly entries: number;
  /** Its topmost page; means nothing in an empty one. */
  readonly root: number;
}

/** Throws when no tree can be like what a page says there. */
export function treeAt(
  bytes: Buffer,
  at: number,
  page: number,
  flags: { readonly mask: number; readonly value: number },
): Tree {
  const tree: Tree = {
    depth: uint16At(bytes, at + TREE.depth),
    entries: uint64At(bytes, at + TREE.entries),
    root: uint64At(bytes, at + TREE.root),
  };
  if ((uint16At(bytes, at + TREE.flags) & flags.mask) !== flags.value)
    throw damagedPage(page, "it names a tree that is sorted in another way than those of this file");
  const isEmpty = bytes.readBigInt64LE(at + TREE.root) === -1n;
  if (tree.depth > DEPTH_MAX || isEmpty !== (tree.depth === 0) || isEmpty !== (tree.entries === 0))
    throw damagedPage(page, `it names a tree of ${tree.entries} entries, depth ${tree.depth} and root ${tree.root}`);
  return tree;
}

export function damagedPage(page: number, what: string): Error {
  return new Error(`data.mdb is damaged: page ${page}: ${what}`);
}

// By hand: some are read of every document, where the methods of Buffer would take most of the time.
export function uint16At(bytes: Buffer, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

export function uint32At(bytes: Buffer, at: number): number {
  return (uint16At(bytes, at) | (uint16At(bytes, at + 2) << 16)) >>> 0;
}

/** Not exact above 2^53, but then at least that. */
export function uint64At(bytes: Buffer, at: number): number {
  return uint32At(bytes, at) + uint32At(bytes, at + 4) * 2 ** 32;
}
