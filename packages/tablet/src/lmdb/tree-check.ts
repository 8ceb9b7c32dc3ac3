import { type Place, textAt } from "../place.js";
import type { DataPages, LargeValue } from "./data-pages.js";
import {
  damagedPage,
  HEAD,
  LARGE_VALUE,
  NODE,
  NODE_FLAGS,
  PAGE_FLAGS,
  TREE_FLAGS,
  TREE_SIZE_BYTES,
  type Tree,
  treeAt,
  uint16At,
  uint32At,
  uint64At,
} from "./file-layout.js";
import { PageNodes } from "./page-nodes.js";

/** lmdb writes no longer ones, and copies those that it reads to where there is no room for much longer ones. */
const KEY_SIZE_MAX_BYTES = 1_978;
const INTEGER_SIZE_BYTES = 8;
/** lmdb stores a table's name with the byte that ends it in C. */
const NAME_END = /\0$/;
const OUT_OF_ORDER = "its keys are out of order";

/** What tells the trees of a file apart. */
export interface TreeKind {
  /** Keys are integers instead of bytes; each, with its value, which is valid until this returns. */
  readonly onInteger?: (key: number, value: Place, page: number) => void;
  /** Values may be tables, each with its name. */
  readonly onTable?: (table: Tree, page: number, name: string) => void;
  /** Each key with its value. Both places are valid until this returns. */
  readonly onEntry?: ((key: Place, value: Place) => void) | undefined;
}

/** The keys of a subtree: none below `low`, all below `high`; undefined for no bound. */
interface Bounds {
  readonly low: Place | undefined;
  readonly high: Place | undefined;
}

/** What a branch page refers to: a page, and the lowest key that belongs there. */
interface Child {
  readonly page: number;
  readonly key: Place;
}

/** Checks all of trees that LMDB relies on when it reads them and writes to them. */
export class TreeCheck {
  readonly #pages: DataPages;
  readonly #kind: TreeKind;
  readonly #nodes: PageNodes;
  readonly #nodeSizeMaxBytes: number;
  /** Of each height above the leaves the page that is looked at. */
  readonly #pageBytes: Buffer[] = [];

  constructor(pages: DataPages, kind: TreeKind) {
    this.#pages = pages;
    this.#kind = kind;
    this.#nodes = new PageNodes(pages.pageSizeBytes);
    // So that two fit on each page, with the two bytes that say where they are.
    this.#nodeSizeMaxBytes = (((pages.pageSizeBytes - HEAD.sizeBytes) / 2) & -2) - 2;
  }

  /** Throws when the tree that page `from` names is damaged; returns its latest transaction, 0 when it is empty. */
  async check(tree: Tree, from: number): Promise<number> {
    if (tree.depth === 0) return 0;
    const height = tree.depth - 1;
    const entries = await this.#subtree(tree.root, from, height, { low: undefined, high: undefined });
    if (entries !== tree.entries)
      throw damagedPage(tree.root, `its tree has ${entries} entries, and by page ${from} ${tree.entries}`);
    return uint64At(this.#bytesAt(height), HEAD.transaction);
  }

  /** Returns how many entries the leaves have. */
  async #subtree(page: number, from: number, height: number, bounds: Bounds): Promise<number> {
    if (height === 0) return this.#leaf(page, from, bounds);
    const children = this.#branch(page, from, height, bounds);
    if (height === 1) this.#pages.readAhead(children.map((child) => child.page));
    let entries = 0;
    for (const [index, child] of children.entries()) {
      const low = index === 0 ? bounds.low : child.key;
      const below: Bounds = { low, high: children[index + 1]?.key ?? bounds.high };
      // Most pages are leaves, and to wait for each would take longer than to check it.
      entries +=
        height === 1 ? this.#leaf(child.page, page, below) : await this.#subtree(child.page, page, height - 1, below);
    }
    await this.#pages.turn();
    return entries;
  }

  #branch(page: number, from: number, height: number, { low, high }: Bounds): Child[] {
    const bytes = this.#bytesAt(height);
    this.#pages.read(page, from, PAGE_FLAGS.branch, bytes);
    const children: Child[] = [];
    let previous = low;
    const count = this.#nodes.begin(bytes, page);
    // While LMDB changes the tree of free pages, it may come to this there.
    if (count < 2 && !this.#kind.onInteger) throw damagedPage(page, "it refers to one page only");
    for (let index = 0; index < count; index++) {
      const at = this.#nodes.at(index);
      const key: Place = { bytes, at: at + NODE.sizeBytes, sizeBytes: uint16At(bytes, at + NODE.keySize) };
      this.#nodes.put(at, NODE.sizeBytes + key.sizeBytes);
      children.push({ page: uint32At(bytes, at) + uint16At(bytes, at + NODE.flags) * 2 ** 32, key });
      // The first one has no key: it has all that is below the second one's.
      if (index === 0) continue;
      this.#checkKey(page, key);
      if (previous !== undefined && this.#compare(previous, key) >= 0) throw damagedPage(page, OUT_OF_ORDER);
      previous = key;
    }
    this.#nodes.end();
    if (previous !== undefined && high !== undefined && this.#compare(previous, high) >= 0)
      throw damagedPage(page, OUT_OF_ORDER);
    return children;
  }

  /** Returns how many entries it has. */
  #leaf(page: number, from: number, { low, high }: Bounds): number {
    const bytes = this.#bytesAt(0);
    this.#pages.read(page, from, PAGE_FLAGS.leaf, bytes);
    let previous: Place | undefined;
    const count = this.#nodes.begin(bytes, page);
    for (let index = 0; index < count; index++) {
      const at = this.#nodes.at(index);
      const key: Place = { bytes, at: at + NODE.sizeBytes, sizeBytes: uint16At(bytes, at + NODE.keySize) };
      this.#checkKey(page, key);
      this.#value(page, bytes, at, key);
      const isInOrder =
        previous === undefined ? low === undefined || this.#compare(low, key) <= 0 : this.#compare(previous, key) < 0;
      if (!isInOrder) throw damagedPage(page, OUT_OF_ORDER);
      previous = key;
    }
    this.#nodes.end();
    if (high !== undefined && this.#compare(previous as Place, high) >= 0) throw damagedPage(page, OUT_OF_ORDER);
    return count;
  }

  #value(page: number, bytes: Buffer, at: number, key: Place): void {
    const { onTable } = this.#kind;
    const flags = uint16At(bytes, at + NODE.flags);
    const valueSizeBytes = uint32At(bytes, at);
    const isLarge = flags === NODE_FLAGS.largeValue;
    const isTable = flags === NODE_FLAGS.table && onTable !== undefined && valueSizeBytes === TREE_SIZE_BYTES;
    if (flags !== 0 && !isLarge && !isTable) throw damagedPage(page, `it has an entry with flags ${flags}`);
    const sizeBytes = NODE.sizeBytes + key.sizeBytes + (isLarge ? LARGE_VALUE.sizeBytes : valueSizeBytes);
    if (sizeBytes > this.#nodeSizeMaxBytes) throw damagedPage(page, `it has an entry of ${sizeBytes} bytes`);
    this.#nodes.put(at, sizeBytes);
    const valueAt = key.at + key.sizeBytes;
    if (isTable) onTable(treeAt(bytes, valueAt, page, TREE_FLAGS.bytes), page, textAt(key).replace(NAME_END, ""));
    else if (isLarge)
      this.#largeValue(page, key, {
        page: uint64At(bytes, valueAt + LARGE_VALUE.page),
        pages: uint64At(bytes, valueAt + LARGE_VALUE.pages),
        sizeBytes: valueSizeBytes,
      });
    else this.#entry(page, key, { bytes, at: valueAt, sizeBytes: valueSizeBytes });
  }

  #largeValue(page: number, key: Place, large: LargeValue): void {
    const { onInteger, onEntry } = this.#kind;
    if (onInteger === undefined && onEntry === undefined) this.#pages.addLargeValue(large, page);
    else this.#entry(page, key, { bytes: this.#pages.largeValue(large, page), at: 0, sizeBytes: large.sizeBytes });
  }

  #entry(page: number, key: Place, value: Place): void {
    const { onInteger, onEntry } = this.#kind;
    onInteger?.(uint64At(key.bytes, key.at), value, page);
    onEntry?.(key, value);
  }

  #checkKey(page: number, { sizeBytes }: Place): void {
    const isSound = this.#kind.onInteger
      ? sizeBytes === INTEGER_SIZE_BYTES
      : sizeBytes > 0 && sizeBytes <= KEY_SIZE_MAX_BYTES;
    if (!isSound) throw damagedPage(page, `it has a key of ${sizeBytes} bytes`);
  }

  #compare(a: Place, b: Place): number {
    return this.#kind.onInteger ? uint64At(a.bytes, a.at) - uint64At(b.bytes, b.at) : compareBytes(a, b);
  }

  #bytesAt(height: number): Buffer {
    this.#pageBytes[height] ??= Buffer.alloc(this.#pages.pageSizeBytes);
    return this.#pageBytes[height];
  }
}

function compareBytes(a: Place, b: Place): number {
  const sizeBytes = Math.min(a.sizeBytes, b.sizeBytes);
  for (let at = 0; at < sizeBytes; at++) {
    const difference = (a.bytes[a.at + at] as number) - (b.bytes[b.at + at] as number);
    if (difference !== 0) return difference;
  }
  return a.sizeBytes - b.sizeBytes;
}
