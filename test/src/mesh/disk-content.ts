import type { NbdClient } from "@diskmesh/disk-agent/nbd-client";

export const BLOCK_BYTES = 4_096;

const ZEROS = Buffer.alloc(BLOCK_BYTES);
/** Matches content that some disk once had. */
const WRITTEN = / block \d+ write \d+\n/;

/**
 * Expected content of a disk by block: the last acknowledged write, or a later unacknowledged one. The first read
 * decides between these, and later reads must agree.
 */
export class DiskContent {
  /** True once bytes of the disk were overwritten outside diskmesh. They may be anything but content of a disk. */
  isDamaged = false;
  readonly #may = new Map<number, readonly Buffer[]>();
  #writes = 0;

  constructor(private readonly diskName: string) {}

  /** Number of blocks that were written. */
  get blocks(): number {
    return this.#may.size;
  }

  /** Returns new content for a block, which no other disk and no earlier write ever had. */
  begin(block: number): Buffer {
    const written = Buffer.alloc(BLOCK_BYTES, `${this.diskName} block ${block} write ${++this.#writes}\n`);
    this.#may.set(block, [...this.#of(block), written]);
    return written;
  }

  /** Records that the write was acknowledged. */
  settle(block: number, written: Buffer): void {
    this.#may.set(block, [written]);
  }

  /** Allows that each written block was erased. */
  mayBeErased(): void {
    for (const [block, may] of this.#may) this.#may.set(block, [...may, ZEROS]);
  }

  /** Writes new content to a block, or to all blocks from there to the end of the disk. */
  async write(client: NbdClient, block: number, { toEnd = false, fua = true } = {}): Promise<void> {
    const count = toEnd ? client.sizeBytes / BLOCK_BYTES - block : 1;
    const data = Array.from({ length: count }, (_, index) => this.begin(block + index));
    await client.write(block * BLOCK_BYTES, Buffer.concat(data), { fua });
    for (const [index, written] of data.entries()) this.settle(block + index, written);
  }

  /** Reads the disk, and returns the faults of its blocks. */
  async faults(client: NbdClient): Promise<string[]> {
    const bytes = await client.read(0, client.sizeBytes);
    return Array.from({ length: client.sizeBytes / BLOCK_BYTES }, (_, block) =>
      this.look(block, bytes.subarray(block * BLOCK_BYTES, (block + 1) * BLOCK_BYTES)),
    ).filter((fault) => fault !== undefined);
  }

  /** Returns the fault in the read bytes of a block; undefined for none. */
  look(block: number, seen: Buffer): string | undefined {
    const may = this.#of(block);
    const found = may.find((one) => one.equals(seen));
    if (found === undefined && !(this.isDamaged && !WRITTEN.test(seen.toString("latin1"))))
      return `block ${block} of ${this.diskName} holds ${shown(seen)}, not ${may.map(shown).join(" or ")}`;
    if (found !== undefined && may.length > 1) this.#may.set(block, [found]);
    return undefined;
  }

  #of(block: number): readonly Buffer[] {
    return this.#may.get(block) ?? [ZEROS];
  }
}

function shown(content: Buffer): string {
  if (content.equals(ZEROS)) return "zeros";
  const [line = ""] = content.toString("latin1").split("\n");
  const isWhole = content.equals(Buffer.alloc(BLOCK_BYTES, `${line}\n`));
  return `${JSON.stringify(line.slice(0, 100))}${isWhole ? "" : " and other things"}`;
}
