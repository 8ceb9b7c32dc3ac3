import type { Schema } from "../documents/schema.js";
import { FORMAT_TABLE } from "../storage/format.js";

/** Collection of leases, one document per tablet of the database. */
export const LEASES = "tablets";

/** Returns true when the tablet uses the collection. */
export type IsOurs = (collection: string) => boolean;

/** Maximum number of names in a warning, because there may be thousands. */
const SHOWN_MAX = 10;

/**
 * Returns the test for a tablet's collections. A collection with the tablet's prefix that is none of its tables, e.g. a
 * copy made by an operator, is not used.
 */
export function collectionsOf(tabletName: string, schema: Schema | undefined): IsOurs {
  const prefix = `${tabletName}.`;
  if (schema === undefined) return (collection) => collection === LEASES || collection.startsWith(prefix);
  const tables = ["log", FORMAT_TABLE, ...Object.keys(schema)];
  const ours = new Set([LEASES, ...tables.map((table) => prefix + table)]);
  return (collection) => ours.has(collection);
}

export function unknownCollectionsWarning(
  tabletName: string,
  serverName: string,
  collections: readonly string[],
): string {
  const shown = collections.slice(0, SHOWN_MAX).map((table) => JSON.stringify(`${tabletName}.${table}`));
  const more = collections.length > SHOWN_MAX ? ` and ${collections.length - SHOWN_MAX} more` : "";
  return `MongoDB at ${serverName} has ${shown.join(", ")}${more}, which are no tables of tablet ${tabletName} and are ignored: move them to another database`;
}
