import { quoted } from "@diskmesh/domain";
import { checkKey } from "../documents/document.js";

/** Header fields that determine the restored state. */
interface Header {
  readonly tabletId: string;
  readonly incarnation: string;
  readonly parentIncarnations: readonly string[];
  readonly generation: number;
  readonly createdAtMs: number;
}

const ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const TABLE = /^[a-z][A-Za-z0-9]{0,62}$/;
/** Maximum generation in a backup. A restore adds to the generation, and the sum must stay a safe integer. */
const GENERATION_MAX = 2 ** 52;
/** Largest time that a Date can hold. */
const TIME_MAX_MS = 8.64e15;

/** Describes the first header field with a value that diskmesh never writes; undefined when every field is valid. */
export function problemOfHeader(header: Header): string | undefined {
  const { tabletId, incarnation, parentIncarnations, generation, createdAtMs } = header;
  if (!ID.test(tabletId)) return `its tabletId ${quoted(tabletId)} is malformed`;
  const id = [incarnation, ...parentIncarnations].find((each) => !ID.test(each));
  if (id !== undefined) return `its incarnation ${quoted(id)} is malformed`;
  if (generation > GENERATION_MAX) return `its generation ${generation} is above ${GENERATION_MAX}`;
  if (!(Math.abs(createdAtMs) <= TIME_MAX_MS)) return `its createdAtMs ${createdAtMs} is not a time`;
  return undefined;
}

interface Document {
  readonly table: string;
  readonly key: string;
  readonly document: object;
}

/** Detects documents of a backup that are valid JSON but that diskmesh never writes. */
export class DocumentRules {
  readonly #keys = new Set<string>();

  /** Returns the problem of a document or its line; undefined when there is none. */
  problemOf(line: string, json: unknown, { table, key, document }: Document): string | undefined {
    if (!TABLE.test(table)) return `its table ${quoted(table)} is not a valid table name`;
    const which = `the document ${quoted(key)} of table ${table}`;
    try {
      checkKey(table, key);
    } catch {
      return `${which} has an invalid key`;
    }
    const id = `${table}\0${key}`;
    if (this.#keys.has(id)) return `it has ${which} twice`;
    this.#keys.add(id);
    const number = impossibleNumber(document);
    if (number !== undefined) return `${which} has an impossible number: ${number}`;
    // JSON.parse keeps the last of two equal fields and rounds large numbers. Writing the result again reveals both.
    if (JSON.stringify(json) !== line) return `${which} has a field twice, or a number that cannot be represented`;
    return undefined;
  }
}

/**
 * Returns the first number that is infinite or an integer above 2^53 - 1, with its place. Arithmetic on such numbers is
 * wrong.
 */
export function impossibleNumber(value: unknown, place = ""): string | undefined {
  if (typeof value === "number")
    return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value))
      ? undefined
      : `${place.slice(1)} is ${value}`;
  if (typeof value !== "object" || value === null) return undefined;
  for (const [name, each] of Object.entries(value)) {
    const found = impossibleNumber(each, `${place}.${name}`);
    if (found !== undefined) return found;
  }
  return undefined;
}
