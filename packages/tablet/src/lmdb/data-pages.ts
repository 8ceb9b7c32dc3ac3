import { readSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { damagedPage, HEAD, PAGE_FLAGS, uint16At, uint32At, uint64At } from "./file-layout.js";
import type { Snapshot } from "./meta-pages.js";
import { PageSet } from "./page-set.js";

/** The process does other things, such as answer health checks, after it read for so long. */
const TURN_MS = 10;
/** Several times faster than page by page. */
const READ_AT_ONCE_BYTES = 2 ** 20;

/** Where an entry says that its value is, which has pages of its own. */
export interface LargeValue {
  readonly page: number;
  readonly pages: number;
  readonly sizeBytes: number;
}

/** The pages of a file, each of which has one use at most: a second one is damage. */
export class DataPages {
  readonly #file: number;
  readonly #snapshot: Snapshot;
  readonly #pagesInFile: number;
  readonly #used: PageSet;
  /** The pages of large values, and the first one of each. */
  readonly #large: PageSet;
  readonly #largeFirst: PageSet;
  /** Pages that were read at once, and by the number of each that was read ahead where it is. */
  readonly #ahead = Buffer.allocUnsafe(READ_AT_ONCE_BYTES);
  readonly #aheadAt = new Map<number, number>();
  #turnEndsMs = performance.now() + TURN_MS;

  constructor(file: number, fileSizeBytes: number, snapshot: Snapshot) {
    this.#file = file;
    this.#snapshot = snapshot;
    this.#pagesInFile = Math.min(Math.floor(fileSizeBytes / snapshot.pageSizeBytes), snapshot.lastPage + 1);
    this.#used = new PageSet(this.#pagesInFile);
    this.#large = new PageSet(this.#pagesInFile);
    this.#largeFirst = new PageSet(this.#pagesInFile);
    // The meta pages.
    this.#use(0, 2, 0);
  }

  get pageSizeBytes(): number {
    return this.#snapshot.pageSizeBytes;
  }

  get transaction(): number {
    return this.#snapshot.transaction;
  }

  /** Reads a page of a tree, to which the page `from` refers. */
  read(page: number, from: number, flags: number, into: Buffer): void {
    this.#useInFile(page, 1, from);
    const at = this.#aheadAt.get(page);
    if (at === undefined) this.#read(into, page);
    else this.#ahead.copy(into, 0, at, at + this.pageSizeBytes);
    this.#checkHead(into, page, flags);
  }

  /** Reads those of the pages that follow upon each other at once, as far as there is room, for when they are asked for. */
  readAhead(pages: readonly number[]): void {
    this.#aheadAt.clear();
    const inOrder = pages.filter((page) => page < this.#pagesInFile).sort((a, b) => a - b);
    let filledBytes = 0;
    for (let next = 0; next < inOrder.length; ) {
      const first = inOrder[next] as number;
      let length = 1;
      while (inOrder[next + length] === first + length) length++;
      next += length;
      const endBytes = filledBytes + length * this.pageSizeBytes;
      if (length === 1 || endBytes > READ_AT_ONCE_BYTES) continue;
      this.#read(this.#ahead.subarray(filledBytes, endBytes), first);
      for (let page = first; page < first + length; page++, filledBytes += this.pageSizeBytes)
        this.#aheadAt.set(page, filledBytes);
    }
  }

  /** Gives others their turn when it is time. */
  async turn(): Promise<void> {
    if (performance.now() < this.#turnEndsMs) return;
    await nextTurn();
    this.#turnEndsMs = performance.now() + TURN_MS;
  }

  /** Notes a value, to which the page `from` refers, for `checkLargeValues`. */
  addLargeValue(value: LargeValue, from: number): void {
    const { page, pages } = value;
    this.#useLarge(value, from);
    this.#largeFirst.add(page);
    for (let each = page; each < page + pages; each++) this.#large.add(each);
  }

  /**
   * Reads all noted values in the order of the file. All of their bytes, though only the heads are judged: LMDB maps the
   * file, so that what the disk cannot read must fail here.
   */
  async checkLargeValues(): Promise<void> {
    const pagesAtOnce = READ_AT_ONCE_BYTES / this.pageSizeBytes;
    this.#aheadAt.clear();
    const window = this.#ahead;
    for (let start = 0; start < this.#pagesInFile; start += pagesAtOnce) {
      let end = Math.min(start + pagesAtOnce, this.#pagesInFile);
      let first = start;
      while (first < end && !this.#large.has(first)) first++;
      if (first === end) continue;
      while (!this.#large.has(end - 1)) end--;
      await this.turn();
      this.#read(window.subarray(0, (end - first) * this.pageSizeBytes), first);
      for (let page = first; page < end; page++)
        if (this.#largeFirst.has(page)) this.#checkLarge(window.subarray((page - first) * this.pageSizeBytes), page);
    }
  }

  /** The bytes of a value, to which the page `from` refers. */
  largeValue(value: LargeValue, from: number): Buffer {
    this.#useLarge(value, from);
    const bytes = Buffer.allocUnsafe(value.pages * this.pageSizeBytes);
    this.#read(bytes, value.page);
    this.#checkHead(bytes, value.page, PAGE_FLAGS.largeValue);
    checkLength(bytes, value.page, value.pages);
    return bytes.subarray(HEAD.sizeBytes, HEAD.sizeBytes + value.sizeBytes);
  }

  /** Free pages may be beyond the end of the file: they were freed before they were written. */
  useFree(first: number, pages: number, from: number): void {
    if (first < 2 || first + pages - 1 > this.#snapshot.lastPage)
      throw damagedPage(from, `it lists ${pages} free pages from page ${first} on, which the file does not have`);
    this.#use(first, Math.min(pages, this.#pagesInFile - first), from);
  }

  #useLarge({ page, pages, sizeBytes }: LargeValue, from: number): void {
    if (HEAD.sizeBytes + sizeBytes > pages * this.pageSizeBytes)
      throw damagedPage(from, `it refers to a value of ${sizeBytes} bytes in ${pages} pages`);
    this.#useInFile(page, pages, from);
  }

  #useInFile(first: number, pages: number, from: number): void {
    if (first < 2 || pages < 1 || first + pages > this.#pagesInFile)
      throw damagedPage(from, `it refers to ${pages} pages from page ${first} on, which the file does not have`);
    this.#use(first, pages, from);
  }

  #use(first: number, pages: number, from: number): void {
    for (let page = first; page < first + pages; page++) {
      if (this.#used.has(page)) throw damagedPage(page, `it is in use twice, the second time by page ${from}`);
      this.#used.add(page);
    }
  }

  #read(into: Buffer, page: number): void {
    let at = 0;
    while (at < into.length) {
      const readBytes = readSync(this.#file, into, at, into.length - at, page * this.pageSizeBytes + at);
      if (readBytes === 0) throw damagedPage(page, "the file ends before it does");
      at += readBytes;
    }
  }

  #checkLarge(bytes: Buffer, first: number): void {
    this.#checkHead(bytes, first, PAGE_FLAGS.largeValue);
    let end = first + 1;
    while (end < this.#pagesInFile && this.#large.has(end) && !this.#largeFirst.has(end)) end++;
    checkLength(bytes, first, end - first);
  }

  #checkHead(bytes: Buffer, page: number, flags: number): void {
    if (uint64At(bytes, HEAD.pageNumber) !== page || uint16At(bytes, HEAD.flags) !== flags)
      throw damagedPage(page, "its head is not that of such a page");
    const transaction = uint64At(bytes, HEAD.transaction);
    if (transaction > this.transaction)
      throw damagedPage(page, `it is of transaction ${transaction}, and the file of ${this.transaction}`);
  }
}

function checkLength(head: Buffer, first: number, pages: number): void {
  if (uint32At(head, HEAD.pages) !== pages) throw damagedPage(first, `it is not the first of ${pages} pages`);
}
