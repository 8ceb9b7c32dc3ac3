/** Field names of an object, in order, with derived facts. */
export interface FieldNames {
  readonly names: readonly string[];
  /**
   * Sorted names, each with the JSON text that begins its field. Undefined when JSON.stringify escapes or reorders a
   * name.
   */
  readonly sorted: readonly { readonly name: string; readonly label: string }[] | undefined;
  /** Upper bound of the names' size in JSON, in BSON, or as JSON in BSON. */
  readonly sizeBytes: number;
  /** True when MongoDB stores fields with these names unchanged. */
  readonly arePlain: boolean;
  /** JSON text of an object with these names. */
  readonly template: string;
}

/** Names that JSON.stringify writes unescaped and in insertion order. */
const WRITTEN_PLAINLY = /^[A-Za-z_][\w.:-]*$/;

/**
 * Names that servers keep as they are. A leading underscore is reserved by diskmesh and the driver; servers interpret
 * dots and dollars.
 */
const PLAIN_NAME = /^[A-Za-z][A-Za-z0-9_-]*$/;

/** Size of quotes, colon and comma in JSON, or of type and terminator in BSON. */
const NAME_OVERHEAD_BYTES = 4;

/** All tables together have fewer distinct lists of field names than this. */
const KNOWN_MAX = 64;
const known: FieldNames[] = [];

/**
 * Returns the facts about an object's field names. Cached, because the documents of a table mostly have the same names
 * in the same order.
 */
export function fieldNamesOf(value: object): FieldNames {
  const names = Object.keys(value);
  for (const each of known) if (isSame(each.names, names)) return each;
  const found = lookAt(names);
  known.unshift(found);
  known.length = Math.min(known.length, KNOWN_MAX);
  return found;
}

/**
 * Returns the size in JSON, where quotes, backslashes, control characters and unpaired surrogates take up to six bytes.
 */
export function textSizeBytes(text: string): number {
  return Buffer.byteLength(isWrittenAsIs(text) ? text : JSON.stringify(text));
}

/** Returns true when the JSON form of the text is the text in quotes. */
export function isWrittenAsIs(text: string): boolean {
  return !/[^ !#-[\]-\ud7ff\ue000-\uffff]/.test(text);
}

function isSame(a: readonly string[], b: readonly string[]): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

function lookAt(names: readonly string[]): FieldNames {
  const areWrittenPlainly = names.every((name) => WRITTEN_PLAINLY.test(name));
  return {
    names,
    sorted: areWrittenPlainly ? [...names].sort().map((name) => ({ name, label: `"${name}":` })) : undefined,
    sizeBytes: names.reduce((sizeBytes, name) => sizeBytes + textSizeBytes(name) + NAME_OVERHEAD_BYTES, 0),
    arePlain: names.every((name) => PLAIN_NAME.test(name)),
    template: `{${names.map((name) => `${JSON.stringify(name)}:0`).join(",")}}`,
  };
}
