import { ByteChecksums, type Checked, checksumAt, hexOf, type Versioned } from "../checksums.js";
import { type Place, placeOf, textAt } from "../place.js";

/** What stands before a document's JSON: its checksum, and its version where that is not 1. The first release had none. */
const HEADER = /^(?:[0-9a-f]{16}(?:v([0-9]{1,9}))?)?(?={)/;
const HEADER_LENGTH_MAX = 26;
const CHECKSUM_LENGTH = 16;
const BRACE = "{".charCodeAt(0);

export interface Record {
  readonly bytes: Buffer;
  readonly checksum: bigint;
}

/** How LMDB holds the documents of a table. */
export class TableRecords {
  readonly #checksums: ByteChecksums;

  constructor(table: string) {
    this.#checksums = new ByteChecksums(table);
  }

  encode(key: Buffer, { document, version }: Versioned): Record {
    const json = JSON.stringify(document);
    const versionText = version === 1 ? "" : `v${version}`;
    const jsonAt = CHECKSUM_LENGTH + versionText.length;
    const bytes = Buffer.allocUnsafe(jsonAt + Buffer.byteLength(json));
    bytes.write(json, jsonAt);
    const checksum = this.#checksums.of(placeOf(key), version, placeOf(bytes, jsonAt));
    bytes.write(`${hexOf(checksum)}${versionText}`, "latin1");
    return { bytes, checksum };
  }

  /** Throws when it is not what was once written there. */
  decode(key: Place, { bytes, at, sizeBytes }: Place): Checked {
    let [headerLength, version] = [CHECKSUM_LENGTH, 1];
    // As nearly every document of a load begins.
    if (sizeBytes <= CHECKSUM_LENGTH || bytes[at] === BRACE || bytes[at + CHECKSUM_LENGTH] !== BRACE) {
      const beginning = bytes.toString("latin1", at, at + Math.min(sizeBytes, HEADER_LENGTH_MAX + 1));
      const [header, versionText] = HEADER.exec(beginning) ?? [];
      if (header === undefined) throw new Error("it holds no document");
      [headerLength, version] = [header.length, Number(versionText ?? 1)];
    }
    const json = { bytes, at: at + headerLength, sizeBytes: sizeBytes - headerLength };
    const checksum = this.#checksums.of(key, version, json);
    if (headerLength > 0 && checksumAt({ bytes, at, sizeBytes }) !== checksum)
      throw new Error("its checksum is another one: it was changed by something else");
    return { document: parse(textAt(json)), version, checksum };
  }
}

function parse(json: string): object {
  try {
    return JSON.parse(json) as object;
  } catch {
    throw new Error("it holds no document");
  }
}
