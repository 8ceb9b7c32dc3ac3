import { fieldNamesOf } from "./field-names.js";

type Fields = Readonly<Record<string, unknown>>;

/**
 * A frozen copy of plain JSON that takes as little memory as what JSON.parse makes. V8 describes what a rest pattern makes
 * of a frozen object, and what BSON is decoded to, once for each such object instead of once for all of a kind: twice
 * what a small document takes itself. Properties that are undefined are left out.
 */
export function compactDocument<Doc extends object>(document: Doc): Doc {
  return compactObject(document as Fields) as Doc;
}

function compact(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  return Array.isArray(value) ? Object.freeze(value.map(compact)) : compactObject(value as Fields);
}

function compactObject(object: Fields): object {
  const { names, template } = fieldNamesOf(object);
  // Made with all its names: such that are added later are kept apart, and many of them as in a dictionary.
  const made = JSON.parse(template) as Record<string, unknown>;
  for (const name of names) {
    const value = object[name];
    if (value === undefined) return compactObject(withoutUndefined(object));
    made[name] = compact(value);
  }
  return Object.freeze(made);
}

function withoutUndefined(object: Fields): Fields {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
