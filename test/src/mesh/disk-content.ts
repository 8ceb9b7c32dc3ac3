export const BLOCK_BYTES = 4_096;

const ZEROS = Buffer.alloc(BLOCK_BYTES);

/**
 * The expected content of a disk, block by block: the last acknowledged write; where a later write was not
 * acknowledged, either of the two, and from the first look on always the same.
 */
export class DiskContent {
  readonly #may = new Map<number, readonly Buffer[]>();
  #writes = 0;

  constructor(
    private readonly diskName: string,
    readonly blocks: number,
  ) {}

  /** The next content of a block, that no other disk and no earlier write ever had. */
  begin(block: number): Buffer {
    const written = Buffer.alloc(BLOCK_BYTES, `${this.diskName} block ${block} write ${++this.#writes}\n`);
    this.#may.set(block, [...this.#of(block), written]);
    return written;
  }

  /** It was answered. */
  settle(block: number, written: Buffer): void {
    this.#may.set(block, [written]);
  }

  /** Returns the fault in the bytes that were read of a block, or undefined. */
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
