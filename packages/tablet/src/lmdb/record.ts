import {
  ByteChecksums,
  type Checked,
  checksumOf,
  hexOf,
  isHexOf,
  type Summed,
  summed,
  type Versioned,
} from "../checksums.js";
import { type Place, textAt } from "../place.js";

/**
 * How LMDB holds a document: its checksum, its version where that is not 1, and its JSON, in one text. The first release
 * stored the JSON alone.
 */
const HEADER = /^(?:[0-9a-f]{16}(?:v([0-9]{1,9}))?)?(?={)/;
const CHECKSUM_LENGTH = 16;
const CHECKSUM = /^[0-9a-f]{16}$/;
const BRACE = "{".charCodeAt(0);

export interface Record {
  readonly text: string;
  readonly checksum: bigint;
}

export function encodeRecord(table: string, key: string, stored: Versioned): Record {
  const { json, checksum }: Summed = summed(table, key, stored);
  return { text: `${hexOf(checksum)}${stored.version === 1 ? "" : `v${stored.version}`}${json}`, checksum };
}

/** The checksum that a record says it has; undefined when it says none. */
export function storedChecksum(record: Buffer): bigint | undefined {
  const text = record.toString("latin1", 0, CHECKSUM_LENGTH);
  return CHECKSUM.test(text) ? BigInt(`0x${text}`) : undefined;
}

/** Reads the documents of one table. */
export class RecordReader {
  readonly #table: string;
  readonly #checksums: ByteChecksums;

  constructor(table: string) {
    this.#table = table;
    this.#checksums = new ByteChecksums(table);
  }

  /** Throws when it is not what was once written there. */
  decode(keyText: string, key: Place, value: Place): Checked {
    const { bytes, at, sizeBytes } = value;
    const jsonAt = at + CHECKSUM_LENGTH;
    if (sizeBytes > CHECKSUM_LENGTH && bytes[jsonAt] === BRACE) {
      const json = { bytes, at: jsonAt, sizeBytes: sizeBytes - CHECKSUM_LENGTH };
      const checksum = this.#checksums.of(key, json);
      if (isHexOf(checksum, bytes, at)) return { document: parse(textAt(json)), version: 1, checksum };
    }
    return decodeRecord(this.#table, keyText, textAt(value));
  }
}

/** Throws when it is not what was once written there. */
export function decodeRecord(table: string, key: string, text: string): Checked {
  const [header, version] = HEADER.exec(text) ?? [];
  if (header === undefined) throw new Error("it holds no document");
  return decode(table, key, text, header.length, Number(version ?? 1));
}

function decode(table: string, key: string, text: string, jsonAt: number, version: number): Checked {
  const json = text.slice(jsonAt);
  const checksum = checksumOf(table, key, version, json);
  if (jsonAt > 0 && text.slice(0, CHECKSUM_LENGTH) !== hexOf(checksum))
    throw new Error("its checksum is another one: it was changed by something else");
  return { document: parse(json), version, checksum };
}

function parse(json: string): object {
  try {
    return JSON.parse(json) as object;
  } catch {
    throw new Error("it holds no document");
  }
}
