import { fieldNamesOf, textSizeBytes } from "./field-names.js";

/**
 * Maximum length of a key in UTF-16 units. 512 units take at most 1536 bytes in UTF-8, which the key limits of all
 * supported engines permit.
 */
const KEY_LENGTH_MAX = 512;

/** Maximum nesting, which also ends the walk of a cyclic document. Real documents are far less nested. */
const NESTING_MAX = 64;

/** Refuses keys that a storage could not return unchanged. */
export function checkKey(table: string, key: unknown): asserts key is string {
  if (typeof key !== "string" || key === "") {
    throw new TypeError(`table ${table}: the key of a document must be a non-empty string, got ${JSON.stringify(key)}`);
  }
  if (key.length > KEY_LENGTH_MAX) {
    throw new TypeError(`table ${table}: a key of ${key.length} characters; the limit is ${KEY_LENGTH_MAX}`);
  }
  // UTF-8 encodes all unpaired surrogates as the same bytes, so two such keys would be stored as one.
  if (/\p{Surrogate}/u.test(key)) {
    throw new TypeError(`table ${table}: the key ${JSON.stringify(key)} is not well-formed Unicode`);
  }
}

/**
 * Freezes the document deeply, and returns an upper bound of its size in bytes in every stored form (JSON, BSON, JSON
 * in BSON). Throws a TypeError with the place of the first value that a storage would not return unchanged. Undefined
 * properties count as absent.
 */
export function sealDocument(document: unknown): number {
  if (typeof document !== "object" || document === null || Array.isArray(document)) {
    throw new TypeError(`a document must be an object, got ${document === null ? "null" : typeof document}`);
  }
  return seal(document, "document", NESTING_MAX);
}

/** Freezes plain JSON in depth. */
export function freezeDocument(document: object): void {
  for (const name in document) {
    const value = (document as Record<string, unknown>)[name];
    if (typeof value === "object" && value !== null) freezeDocument(value);
  }
  Object.freeze(document);
}

function seal(value: unknown, path: string, depthLeft: number): number {
  switch (typeof value) {
    case "string":
      return textSizeBytes(value) + 5;
    case "number":
      if (!Number.isFinite(value)) throw new TypeError(`${path} is ${value}, which no storage supports`);
      // In JSON a number has at most 24 characters, and an integer below 1e6 at most 7. BSON takes up to 8 bytes. These
      // bounds avoid formatting the number.
      return Number.isInteger(value) && Math.abs(value) < 1e6 ? 8 : 24;
    case "boolean":
      return 5;
    case "object":
      if (value === null) return 4;
      if (depthLeft === 0) throw new TypeError(`${path} is nested more than ${NESTING_MAX} deep, or contains itself`);
      return Array.isArray(value) ? sealArray(value, path, depthLeft - 1) : sealObject(value, path, depthLeft - 1);
    default:
      throw new TypeError(`${path} is a ${typeof value}, which no storage supports`);
  }
}

function sealArray(array: readonly unknown[], path: string, depthLeft: number): number {
  let sizeBytes = 5;
  // BSON stores the index with each item.
  for (let i = 0; i < array.length; i++) sizeBytes += seal(array[i], `${path}[${i}]`, depthLeft) + 9;
  Object.freeze(array);
  return sizeBytes;
}

function sealObject(object: object, path: string, depthLeft: number): number {
  const prototype = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    throw new TypeError(`${path} is a ${prototype.constructor?.name ?? "class instance"}, not a plain object`);
  }
  const fieldNames = fieldNamesOf(object);
  let sizeBytes = 5 + fieldNames.sizeBytes;
  for (const name of fieldNames.names) {
    const value = (object as Record<string, unknown>)[name];
    if (value !== undefined) sizeBytes += seal(value, path, depthLeft);
  }
  Object.freeze(object);
  return sizeBytes;
}
