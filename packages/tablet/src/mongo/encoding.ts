import { type Checked, checksumInAnyOrder, hexOf, type Versioned } from "../checksums.js";
import { compactDocument } from "../compact-document.js";
import { fieldNamesOf } from "../field-names.js";
import type { Fields } from "./document-server.js";

/** Holds a document whose names or strings MongoDB would refuse, or give back as something else. */
const JSON_FIELD = "_json";

export interface EncodedDocument {
  readonly fields: Fields;
  /** What it takes in BSON, roughly. */
  readonly sizeBytes: number;
  readonly checksum: bigint;
}

export interface DecodedDocument extends Checked {
  /** False when it has another checksum with it. The first release stored none. */
  readonly isIntact: boolean;
}

/**
 * A document as it is stored: as it is, so that people can query it, or as JSON when it has names of odd shape; with
 * its checksum, and its version where that is not 1.
 */
export function encodeDocument(table: string, key: string, versioned: Versioned): EncodedDocument {
  const { document, version } = versioned;
  const checksum = checksumInAnyOrder(table, key, versioned);
  const ours = { _sum: hexOf(checksum), ...(version === 1 ? {} : { _version: version }) };
  const sizeBytes = plainSizeBytes(document);
  if (!Number.isNaN(sizeBytes)) return { fields: { ...document, ...ours }, sizeBytes, checksum };
  const json = JSON.stringify(document);
  return { fields: { [JSON_FIELD]: json, ...ours }, sizeBytes: Buffer.byteLength(json), checksum };
}

/** The document in what was stored, with or without the fields that the view adds. */
export function decodeDocument(table: string, key: string, fields: Fields): DecodedDocument {
  const { _id, _seq, _sum, _version, ...plain } = fields;
  const json = plain[JSON_FIELD];
  const document = typeof json === "string" ? (JSON.parse(json) as object) : compactDocument(plain);
  const version = typeof _version === "number" ? _version : 1;
  const checksum = checksumInAnyOrder(table, key, { document, version });
  return { document, version, checksum, isIntact: _sum === undefined || _sum === hexOf(checksum) };
}

/** NaN when the value holds what cannot be stored as it is. */
function plainSizeBytes(value: unknown): number {
  if (typeof value === "string") return /\p{Surrogate}/u.test(value) ? Number.NaN : Buffer.byteLength(value) + 5;
  if (typeof value === "boolean") return 1;
  if (typeof value !== "object" || value === null) return 8;
  let sizeBytes = 5;
  if (Array.isArray(value)) {
    for (const item of value) sizeBytes += 9 + plainSizeBytes(item);
    return sizeBytes;
  }
  const fieldNames = fieldNamesOf(value);
  if (!fieldNames.arePlain) return Number.NaN;
  for (const name of fieldNames.names) sizeBytes += plainSizeBytes((value as Record<string, unknown>)[name]);
  return sizeBytes + fieldNames.sizeBytes;
}
