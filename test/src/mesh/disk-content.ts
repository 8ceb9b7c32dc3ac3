export const BLOCK_BYTES = 4_096;

const ZEROS = Buffer.alloc(BLOCK_BYTES);

/**
 * Expected content of a disk by block: the last acknowledged write, or a later unacknowledged one. The first read
 * decides between these, and later reads must agree.
 */
export class DiskContent {
  readonly #may = new Map<number, readonly Buffer[]>();
  #writes = 0;

  constructor(
    private readonly diskName: string,
    readonly blocks: number,
  ) {}

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

  /** Returns the fault in the read bytes of a block; undefined for none. */
  look(block: number, seen: Buffer): string | undefined {
    const may = this.#of(block);
    if (!may.some((one) => one.equals(seen)))
      return `block ${block} of ${this.diskName} holds ${shown(seen)}, not ${may.map(shown).join(" or ")}`;
    this.#may.set(block, [seen]);
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
