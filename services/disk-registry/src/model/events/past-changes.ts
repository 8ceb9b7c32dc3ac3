import { bytesText, timeText } from "@diskmesh/domain";

/** A commit of the tablet: a journal's number, and a byte in it. */
interface CommitPlace {
  readonly journal: number;
  readonly at: number;
}

/** A change of a host, device or disk as the tablet keeps it; a null document means deleted. */
interface KeptChange {
  readonly commit: CommitPlace;
  readonly atMs: number | undefined;
  readonly cause: string | undefined;
  readonly document: object | null;
}

/** A kept change in words. */
export interface ToldChange extends Omit<KeptChange, "document"> {
  /** Changed facts, for example "attach state ATTACHED -> CLOSING". */
  readonly details: readonly string[];
}

/** Maximum details of a change. A disk of many parts can change in hundreds of fields at once. */
const MAX_DETAILS = 16;
const MAX_VALUE_LENGTH = 200;
const NONE = "none";
const CREATED = "created";

/** Fields that restate the time of the change or another field. */
const LEFT_OUT = new Set(["stateChangedAtMs", "keptHealth", "formerBootIds"]);
/** Fields of the state that is told with the first kept change of an object. */
const SUMMARY = new Set(
  `state, attach state, health, generation, host id, size, az, address, removal requested, publication state,
  publication host id, publication session number`.split(/,\s*/),
);

/** Tells the kept changes of one object, which come oldest first, and keeps the last `limit` of them. */
export class LastChanges {
  readonly #limit: number;
  readonly #last: ToldChange[] = [];
  /** Undefined before the first kept change. */
  #before: object | null | undefined;
  #count = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  add({ document, ...change }: KeptChange): void {
    this.#last.push({ ...change, details: detailsOf(this.#before, document) });
    this.#before = document;
    this.#count++;
    if (this.#last.length > this.#limit) this.#last.shift();
  }

  /**
   * Returns the changes, newest first, and the commit before which older ones are kept; undefined when none are. With
   * `isComplete` the first change has created the object.
   */
  end(isComplete: boolean): { readonly changes: readonly ToldChange[]; readonly olderThan: CommitPlace | undefined } {
    const [first, ...later] = this.#last;
    const isOldest = first !== undefined && this.#count === this.#last.length;
    const last =
      isOldest && isComplete ? [{ ...first, details: [CREATED, ...first.details.slice(1)] }, ...later] : this.#last;
    return {
      changes: last.toReversed(),
      olderThan: this.#count > this.#last.length ? this.#last[0]?.commit : undefined,
    };
  }
}

function detailsOf(before: object | null | undefined, after: object | null): string[] {
  if (after === null) return ["deleted"];
  const fields = fieldsOf(after);
  if (before === undefined || before === null) {
    const state = [...fields].filter(([name]) => SUMMARY.has(name)).map(([name, value]) => `${name} ${value}`);
    return [before === null ? CREATED : "the first change that is kept", ...state];
  }
  const former = fieldsOf(before);
  const details = [...new Set([...former.keys(), ...fields.keys()])].flatMap((name) => {
    const [was, is] = [former.get(name) ?? NONE, fields.get(name) ?? NONE];
    return was === is ? [] : [`${name} ${was} -> ${is}`];
  });
  if (details.length <= MAX_DETAILS) return details;
  return [...details.slice(0, MAX_DETAILS - 1), `and ${details.length - MAX_DETAILS + 1} other fields`];
}

/** Returns the values of a document by their names in words, for example "publication state". */
function fieldsOf(document: object, prefix = "", fields = new Map<string, string>()): Map<string, string> {
  for (const [field, value] of Object.entries(document)) {
    if (LEFT_OUT.has(field) || value === undefined) continue;
    const name = `${prefix}${wordsOf(field)}`;
    if (Array.isArray(value)) for (const [at, each] of value.entries()) addElement(fields, singularOf(name), each, at);
    else if (typeof value === "object" && value !== null) fieldsOf(value, `${name} `, fields);
    else fields.set(name, valueText(field, value));
  }
  return fields;
}

function addElement(fields: Map<string, string>, name: string, element: unknown, at: number): void {
  if (typeof element !== "object" || element === null) {
    fields.set(`${name} ${at + 1}`, valueText("", element));
    return;
  }
  const { deviceId, first, name: label = deviceId ?? first } = element as Readonly<Record<string, unknown>>;
  const known = label === undefined ? String(at + 1) : valueText("", label);
  fieldsOf(element, `${name} ${known} `, fields);
}

/** Returns the words of a field's name without its unit. */
function wordsOf(field: string): string {
  const name = field.replace(/(AtMs|Ms|Bytes)$/, (unit) => (unit === "AtMs" ? "At" : ""));
  return name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function singularOf(name: string): string {
  return name.replace(/ies$/, "y").replace(/s$/, "");
}

function valueText(field: string, value: unknown): string {
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number" && /([aA]t|[sS]ince|[uU]ntil)Ms$/.test(field)) return timeText(value);
  if (typeof value === "number" && /[bB]ytes$/.test(field)) return bytesText(value);
  const text = String(value);
  if (text === "") return NONE;
  return text.length > MAX_VALUE_LENGTH ? `${text.slice(0, MAX_VALUE_LENGTH)}...` : text;
}
