import xxhash from "xxhash-wasm";
import { fieldNamesOf, isWrittenAsIs } from "./field-names.js";

/** xxHash64 detects lost, mixed up, damaged and manually edited documents; it does not protect against forgery. */
const { h64 } = await xxhash();

/** A document with its table's shape version. */
export interface Versioned {
  readonly document: object;
  readonly version: number;
}

export interface Checked extends Versioned {
  readonly checksum: bigint;
}

/** Number of a table's documents, and the sum of their checksums modulo 2^64, as 16 hexadecimal digits. */
interface TableSum {
  readonly count: number;
  readonly sum: string;
}

/** Sums by table; a table without documents is absent. */
export type StoredSums = Readonly<Record<string, TableSum>>;

/**
 * Returns the checksum of a document. `json` must be JSON.stringify's text of the document, whether before storing or
 * after loading.
 */
export function checksumOf(table: string, key: string, version: number, json: string): bigint {
  return h64(`${table}\0${key}\0${version}\0${json}`);
}

/**
 * Returns a checksum that does not depend on the order of the document's fields, because some servers keep the field
 * order of an earlier version of the document.
 */
export function checksumInAnyOrder(table: string, key: string, { document, version }: Versioned): bigint {
  return checksumOf(table, key, version, textInOrder(document));
}

/**
 * Caches checksums of recently committed documents, because a replacement needs the former document's checksum and some
 * documents are replaced often.
 */
export class KnownChecksums {
  // One map per table, keyed by the document object: a document is immutable and never changes its key.
  readonly #byTable = new Map<string, WeakMap<object, bigint>>();

  remember(table: string, document: object, checksum: bigint): void {
    let known = this.#byTable.get(table);
    if (known === undefined) {
      known = new WeakMap();
      this.#byTable.set(table, known);
    }
    known.set(document, checksum);
  }

  of(table: string, key: string, versioned: Versioned): bigint {
    return this.#byTable.get(table)?.get(versioned.document) ?? checksumInAnyOrder(table, key, versioned);
  }
}

/**
 * Writes JSON with sorted field names. Concatenates pieces, because JSON.stringify of a sorted copy takes twice the
 * time.
 */
function textInOrder(value: unknown): string {
  if (typeof value === "string") return isWrittenAsIs(value) ? `"${value}"` : JSON.stringify(value);
  if (typeof value === "number" || typeof value === "boolean") return `${value}`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(textInOrder).join(",")}]`;
  const { sorted } = fieldNamesOf(value);
  // Stored checksums were computed from JSON.stringify's text, so JSON.stringify must write the names that it escapes.
  if (sorted === undefined) return JSON.stringify(inOrder(value));
  const fields = value as Readonly<Record<string, unknown>>;
  let text = "";
  for (const { name, label } of sorted) {
    const field = fields[name];
    if (field !== undefined) text += `${text === "" ? "" : ","}${label}${textInOrder(field)}`;
  }
  return `{${text}}`;
}

function inOrder(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(inOrder);
  const fields = value as Readonly<Record<string, unknown>>;
  // Has no prototype, so that `__proto__` is assigned like any other field.
  const ordered: Record<string, unknown> = Object.create(null);
  for (const name of Object.keys(fields).sort()) ordered[name] = inOrder(fields[name]);
  return ordered;
}

export function hexOf(checksum: bigint): string {
  return checksum.toString(16).padStart(16, "0");
}

/** Count and checksum sum of a whole state, independent of the order of its documents. */
export class StateSums {
  readonly #byTable = new Map<string, { count: number; sum: bigint }>();

  constructor(other?: StateSums) {
    if (other === undefined) return;
    for (const [table, sum] of other.#byTable) this.#byTable.set(table, { ...sum });
  }

  add(table: string, checksum: bigint): void {
    this.#change(table, 1, checksum);
  }

  remove(table: string, checksum: bigint): void {
    this.#change(table, -1, -checksum);
  }

  stored(): StoredSums {
    const stored: Record<string, TableSum> = {};
    for (const [table, { count, sum }] of this.#byTable) if (count > 0) stored[table] = { count, sum: hexOf(sum) };
    return stored;
  }

  /** Describes by table the differences from the expected sums; undefined when there are none. */
  differenceFrom(expected: StoredSums): string | undefined {
    const found = this.stored();
    const tables = [...new Set([...Object.keys(expected), ...Object.keys(found)])].sort();
    const differences = tables.flatMap((table) => differenceOf(table, found[table], expected[table]));
    return differences.length > 0 ? differences.join("; ") : undefined;
  }

  #change(table: string, count: number, checksum: bigint): void {
    let sum = this.#byTable.get(table);
    if (sum === undefined) {
      sum = { count: 0, sum: 0n };
      this.#byTable.set(table, sum);
    }
    sum.count += count;
    sum.sum = BigInt.asUintN(64, sum.sum + checksum);
    if (sum.count < 0) throw new RangeError(`table ${table}: more documents are deleted than there are`);
  }
}

function differenceOf(table: string, found: TableSum | undefined, expected: TableSum | undefined): string[] {
  const [foundCount, expectedCount] = [found?.count ?? 0, expected?.count ?? 0];
  const missing = expectedCount - foundCount;
  if (missing > 0) return [`table ${table} has ${foundCount} of ${expectedCount} documents: ${missing} missing`];
  if (missing < 0)
    return [`table ${table} has ${foundCount} documents instead of ${expectedCount}: ${-missing} too many`];
  if (found?.sum === expected?.sum) return [];
  return [`table ${table} has ${foundCount} documents as expected, but some differ from the last commit`];
}
