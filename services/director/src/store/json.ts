/** A JSON value, e.g. a disk's hint or metadata, stored and forwarded without interpretation. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

/** Returns true when two JSON values are equal regardless of property order. */
export function sameJson(a: Json, b: Json): boolean {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  if (Array.isArray(a) !== Array.isArray(b)) return false;
  const entries = Object.entries(a);
  if (entries.length !== Object.keys(b).length) return false;
  return entries.every(([name, value]) => Object.hasOwn(b, name) && sameJson(value, (b as JsonObject)[name] as Json));
}
