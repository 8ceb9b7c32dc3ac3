/**
 * Version of the layout in MongoDB; 0.1.0 wrote 2. A program that finds an unknown version refuses the store before it
 * changes anything.
 */
export const STORE_FORMAT = 2;

/**
 * Table of the document that holds the database's format version. Programs of the first release do not know this table,
 * so they refuse to load the database, also in a takeover.
 */
export const FORMAT_TABLE = "format";
export const FORMAT_KEY = "store";

/** Remedy in messages about a damaged or incomplete store. */
export const CURE =
  "`diskmesh verify` names what is damaged; restore a backup into an empty store, or what `diskmesh salvage` saves; was the store only copied or dumped, do it again with the `backup` command, which is of one moment";

export function newerFormat(what: string, found: unknown, supported = STORE_FORMAT): string {
  return `${what} was written by a newer diskmesh: its format is ${found}, but this program supports at most ${supported}; run the newer program`;
}
