import { FORMAT_TABLE } from "../format.js";
import type { Schema } from "../schema.js";

/** Of all tablets in a database, a document for each. */
export const LEASES = "tablets";

/** Whether a tablet relies on a collection. */
export type IsOurs = (collection: string) => boolean;

/** Names in a warning: somebody may have made thousands. */
const SHOWN_MAX = 10;

/** What begins with the tablet's name and is none of its tables is somebody else's, a copy that was made beside it, say. */
export function collectionsOf(tabletName: string, schema: Schema | undefined): IsOurs {
  const prefix = `${tabletName}.`;
  if (schema === undefined) return (collection) => collection === LEASES || collection.startsWith(prefix);
  const tables = ["log", FORMAT_TABLE, ...Object.keys(schema)];
  const ours = new Set([LEASES, ...tables.map((table) => prefix + table)]);
  return (collection) => ours.has(collection);
}

export function strayWarning(tabletName: string, serverName: string, strays: readonly string[]): string {
  const shown = strays.slice(0, SHOWN_MAX).map((table) => JSON.stringify(`${tabletName}.${table}`));
  const more = strays.length > SHOWN_MAX ? ` and ${strays.length - SHOWN_MAX} more` : "";
  return `MongoDB at ${serverName} has ${shown.join(", ")}${more} beside the tables of tablet ${tabletName}; nothing of that is read: move it to another database`;
}
