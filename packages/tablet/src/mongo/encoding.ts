import type { Fields } from "./document-server.js";

/** Holds a document whose names or strings MongoDB would refuse, or give back as something else. */
const JSON_FIELD = "_json";

/** Names with an underscore in front are ours and the driver's; dots and dollars mean something to servers. */
const PLAIN_NAME = /^[A-Za-z][A-Za-z0-9_-]*$/;

export interface EncodedDocument {
  readonly fields: Fields;
  /** What it takes in BSON, roughly. */
  readonly sizeBytes: number;
}

/** A document as it is stored: as it is, so that people can query it, or as JSON when it has names of odd shape. */
export function encodeDocument(document: object): EncodedDocument {
  const sizeBytes = plainSizeBytes(document);
  if (!Number.isNaN(sizeBytes)) return { fields: document as Fields, sizeBytes };
  const json = JSON.stringify(document);
  return { fields: { [JSON_FIELD]: json }, sizeBytes: Buffer.byteLength(json) };
}

/** The document in what was stored, with or without the fields that the view adds. */
export function decodeDocument(stored: Fields): object {
  const json = stored[JSON_FIELD];
  if (typeof json === "string") return JSON.parse(json) as object;
  const { _id, _seq, ...document } = stored;
  return document;
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
  for (const name of Object.keys(value)) {
    if (!PLAIN_NAME.test(name)) return Number.NaN;
    sizeBytes += name.length + 2 + plainSizeBytes((value as Record<string, unknown>)[name]);
  }
  return sizeBytes;
}
