import { damagedPage, HEAD, NODE, uint16At } from "./file-layout.js";

/**
 * The entries of a page of a tree. They fill its end without gap or overlap, and LMDB relies on that when it moves them.
 */
export class PageNodes {
  readonly #endAt: number;
  /** By half its place: the size of the entry that begins there, and the number of the page for which it was put. */
  readonly #sizes: Uint32Array;
  readonly #pages: Uint32Array;
  #pageCount = 0;
  #bytes: Buffer = Buffer.alloc(0);
  #page = 0;
  #count = 0;
  #upperAt = 0;

  constructor(pageSizeBytes: number) {
    this.#endAt = pageSizeBytes;
    this.#sizes = new Uint32Array(pageSizeBytes / 2);
    this.#pages = new Uint32Array(pageSizeBytes / 2);
  }

  /** Begins with a page; returns how many entries it has. */
  begin(bytes: Buffer, page: number): number {
    const lower = uint16At(bytes, HEAD.lower);
    this.#bytes = bytes;
    this.#page = page;
    this.#pageCount++;
    this.#count = lower / 2;
    this.#upperAt = HEAD.sizeBytes + uint16At(bytes, HEAD.upper);
    if (lower % 2 !== 0 || lower === 0 || HEAD.sizeBytes + lower > this.#upperAt || this.#upperAt > this.#endAt)
      throw damagedPage(page, "its entries are not within it");
    return this.#count;
  }

  /** Where the entry is; at least its head is within the page. */
  at(index: number): number {
    const at = HEAD.sizeBytes + uint16At(this.#bytes, HEAD.sizeBytes + 2 * index);
    if (at < this.#upperAt || at > this.#endAt - NODE.sizeBytes || at % 2 !== 0)
      throw damagedPage(this.#page, `its entry ${index} is not within it`);
    return at;
  }

  /** Tells how large the entry there is; throws when it does not end within the page. */
  put(at: number, sizeBytes: number): void {
    if (at + sizeBytes > this.#endAt) throw damagedPage(this.#page, "its entries are not within it");
    this.#sizes[at >>> 1] = sizeBytes + (sizeBytes & 1);
    this.#pages[at >>> 1] = this.#pageCount;
  }

  /** Ends with the page, when all of its entries were put. */
  end(): void {
    let at = this.#upperAt;
    let count = 0;
    while (at < this.#endAt && this.#pages[at >>> 1] === this.#pageCount) {
      at += this.#sizes[at >>> 1] as number;
      count++;
    }
    if (at !== this.#endAt || count !== this.#count)
      throw damagedPage(this.#page, "its entries overlap, or have gaps between them");
  }
}
