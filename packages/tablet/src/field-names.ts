/** The names of an object's fields in their order, and what follows from them alone. */
export interface FieldNames {
  readonly names: readonly string[];
  /** By name, each with how JSON begins its field. Undefined when JSON.stringify writes one escaped, or in another place. */
  readonly sorted: readonly { readonly name: string; readonly label: string }[] | undefined;
  /** No less than the names take in JSON, in BSON, or as JSON in BSON. */
  readonly sizeBytes: number;
  /** MongoDB stores fields of these names and gives them back as they are. */
  readonly arePlain: boolean;
  /** JSON of an object that has them. */
  readonly template: string;
}

/** JSON.stringify writes them as they are, and in the order in which they were set. */
const WRITTEN_PLAINLY = /^[A-Za-z_][\w.:-]*$/;

/** Names with an underscore in front are ours and the driver's; dots and dollars mean something to servers. */
const PLAIN_NAME = /^[A-Za-z][A-Za-z0-9_-]*$/;

/** Quotes, colon and comma; or BSON's type and end. */
const NAME_OVERHEAD_BYTES = 4;

/** As many as tables have in all their variants, and some more. */
const KNOWN_MAX = 64;
const known: FieldNames[] = [];

/** Documents of a table mostly have the same names in the same order: they are looked at once. */
export function fieldNamesOf(value: object): FieldNames {
  const names = Object.keys(value);
  for (const each of known) if (isSame(each.names, names)) return each;
  const found = lookAt(names);
  known.unshift(found);
  known.length = Math.min(known.length, KNOWN_MAX);
  return found;
}

/** JSON writes quotes, backslashes, control characters and lone surrogates in up to six bytes. */
export function textSizeBytes(text: string): number {
  return Buffer.byteLength(isWrittenAsIs(text) ? text : JSON.stringify(text));
}

/** JSON writes the text with nothing but quotes around it. */
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
