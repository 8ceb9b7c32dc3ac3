/**
 * Version of the store's layout. 1, the first release, had no incarnation, checksums or sums. A program refuses unknown
 * formats before it changes anything.
 */
export const STORE_FORMAT = 2;

/**
 * Table of the document that holds the format of a database. Programs of the first release do not know the table and
 * refuse to load it, also when they stood by while this one led.
 */
export const FORMAT_TABLE = "format";
export const FORMAT_KEY = "store";

/** Cure in messages about a store that is not whole. */
export const CURE =
  "`diskmesh verify` names what is damaged; restore a backup into an empty store, or what `diskmesh salvage` saves; was the store only copied or dumped, do it again with the `backup` command, which is of one moment";

export function newerFormat(what: string, found: unknown): string {
  return `${what} was written by a newer diskmesh: it has format ${found}, this program knows no higher one than ${STORE_FORMAT}; run the newer one`;
}
