import { type Checked, checksumInAnyOrder, hexOf, type Versioned } from "../documents/checksums.js";
import { compactDocument } from "../documents/compact-document.js";
import { fieldNamesOf } from "../documents/field-names.js";
import type { Fields } from "./document-server.js";

/** Field that holds the whole document as JSON text when MongoDB would refuse or change its field names or strings. */
const JSON_FIELD = "_json";

export interface EncodedDocument {
  readonly fields: Fields;
  /** Approximate size in BSON. */
  readonly sizeBytes: number;
  readonly checksum: bigint;
}

export interface DecodedDocument extends Checked {
  /** False when the document does not match its stored checksum, or has none. */
  readonly isIntact: boolean;
}

/**
 * Encodes a document for the store: as plain fields, so that people can query it, or as JSON text (see JSON_FIELD).
 * Adds the checksum, and the version unless it is 1.
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

/** Decodes a stored document, of the log or of the view. */
export function decodeDocument(table: string, key: string, fields: Fields): DecodedDocument {
  const { _id, _seq, _sum, _version, ...plain } = fields;
  const json = plain[JSON_FIELD];
  const document = typeof json === "string" ? (JSON.parse(json) as object) : compactDocument(plain);
  const version = typeof _version === "number" ? _version : 1;
  const checksum = checksumInAnyOrder(table, key, { document, version });
  return { document, version, checksum, isIntact: _sum === hexOf(checksum) };
}

/** Returns the size in BSON; NaN when the value cannot be stored as plain fields. */
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
