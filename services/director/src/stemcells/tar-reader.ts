import { InvalidArgumentError } from "@diskmesh/domain";

const BLOCK_BYTES = 512;

/** A file in an archive. Its content comes in pieces, and must be read to its end before the next entry. */
export interface TarEntry {
  readonly name: string;
  readonly sizeBytes: number;
  readonly isFile: boolean;
  readonly content: AsyncIterable<Buffer>;
}

/**
 * The entries of a tar archive in the order in which they come. Names are only compared, never used as paths. Long names
 * and other extensions are entries of their own, which are no files.
 */
export async function* tarEntries(bytes: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const source = new ByteSource(bytes);
  for (;;) {
    const header = await source.take(BLOCK_BYTES);
    // An archive ends with blocks of zeros; whatever stands behind them is padding.
    if (header === undefined || header.every((byte) => byte === 0)) return source.drain();
    const entry = parseHeader(header);
    const content = source.pieces(entry.sizeBytes);
    yield { ...entry, content };
    for await (const _ of content);
    await source.skip((BLOCK_BYTES - (entry.sizeBytes % BLOCK_BYTES)) % BLOCK_BYTES);
  }
}

function parseHeader(header: Buffer): Omit<TarEntry, "content"> {
  const expected = parseNumber(header.subarray(148, 156));
  let sum = 0;
  for (const [index, byte] of header.entries()) sum += index >= 148 && index < 156 ? 0x20 : byte;
  if (sum !== expected) throw damaged("the checksum of a header is wrong");
  const type = String.fromCharCode(header[156] as number);
  const isUstar = header.toString("latin1", 257, 262) === "ustar";
  const prefix = isUstar ? parseText(header.subarray(345, 500)) : "";
  const name = parseText(header.subarray(0, 100));
  return {
    name: prefix === "" ? name : `${prefix}/${name}`,
    sizeBytes: parseNumber(header.subarray(124, 136)),
    isFile: type === "0" || type === "\0",
  };
}

function parseText(field: Buffer): string {
  const end = field.indexOf(0);
  return field.toString("utf8", 0, end < 0 ? field.length : end);
}

/** Octal digits, or, with the highest bit set, a big-endian number, as for files of 8 GiB and more. */
function parseNumber(field: Buffer): number {
  if (((field[0] as number) & 0x80) !== 0) {
    const value = field.subarray(1).reduce((sum, byte) => sum * 256 + byte, 0);
    if (Number.isSafeInteger(value) && field[0] === 0x80) return value;
    throw damaged("a size is out of range");
  }
  const text = parseText(field).trim();
  if (!/^[0-7]*$/.test(text)) throw damaged("a number in a header is malformed");
  return text === "" ? 0 : Number.parseInt(text, 8);
}

function damaged(why: string): Error {
  return new InvalidArgumentError(`the stemcell is no tar archive, or damaged: ${why}`);
}

/** Hands out exactly so many bytes of a stream of pieces. */
class ByteSource {
  readonly #iterator: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(bytes: AsyncIterable<Buffer>) {
    this.#iterator = bytes[Symbol.asyncIterator]();
  }

  /** Undefined at the end of the stream. */
  async take(sizeBytes: number): Promise<Buffer | undefined> {
    const pieces: Buffer[] = [];
    if (this.#rest.length === 0 && !(await this.#more())) return undefined;
    for await (const piece of this.pieces(sizeBytes)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  async skip(sizeBytes: number): Promise<void> {
    for await (const _ of this.pieces(sizeBytes));
  }

  async drain(): Promise<void> {
    while (await this.#more());
  }

  async *pieces(sizeBytes: number): AsyncGenerator<Buffer> {
    for (let leftBytes = sizeBytes; leftBytes > 0; ) {
      if (this.#rest.length === 0 && !(await this.#more())) throw damaged("it ends in the middle of an entry");
      const piece = this.#rest.subarray(0, leftBytes);
      this.#rest = this.#rest.subarray(piece.length);
      leftBytes -= piece.length;
      yield piece;
    }
  }

  async #more(): Promise<boolean> {
    for (;;) {
      const next = await this.#iterator.next();
      if (next.done === true) return false;
      this.#rest = next.value;
      if (this.#rest.length > 0) return true;
    }
  }
}
